"""`config.yaml` in `HERMES_HOME`: reading YAML that others have written, and the sections that are ours."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING

from environments.errors import SettingsError
from environments.validation import Given

if TYPE_CHECKING:
    from pathlib import Path

    import yaml

    from environments.legacy import Older

LONGEST = 1_000_000
"""Characters of a document."""
DEEPEST = 50
"""Collections within each other."""
MOST_VALUES = 50_000
"""Values of what is read, each counted as often as aliases repeat it."""
_YAML_FAULTS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What PyYAML also raises, for dates that are none and tags that do not fit."""


def read_mapping(text: str, where: str) -> Document:
    """Read a document whose top is a mapping.

    Args:
        text: The document.
        where: What to call it in errors, which never quote it: it may hold secrets.

    Raises:
        SettingsError: It is not valid YAML, no mapping, or too much in one of the ways above.
    """
    import yaml

    if len(text) > LONGEST:
        raise SettingsError(f"{where}: it is longer than {LONGEST:,} characters")
    try:
        root = _loader(text).get_single_node()
    except yaml.YAMLError as error:
        raise SettingsError(f"{where}: is not valid YAML{_place(error)}") from None
    except RecursionError:
        raise SettingsError(f"{where}: is not valid YAML: it is nested too deeply") from None
    except _YAML_FAULTS:
        raise SettingsError(f"{where}: is not valid YAML") from None
    empty = root is None or (isinstance(root, yaml.ScalarNode) and root.tag.endswith(":null"))
    if root is not None and not empty and not isinstance(root, yaml.MappingNode):
        kind = "text" if isinstance(root, yaml.ScalarNode) else "list"
        raise SettingsError(f"{where}: it should be a mapping of names to values, not a {kind}")
    return Document(root if isinstance(root, yaml.MappingNode) else None, where)


class Document:
    """A document that has been read. Its values are made when they are asked for: the others' are not looked at.

    Args:
        root: Its top; None where it is empty.
        where: What to call it in errors.
    """

    def __init__(self, root: yaml.MappingNode | None, where: str) -> None:
        self._entries = root.value if root else []
        self._where = where
        self._lock = Lock()  # what is merged with << is merged into the nodes, as their values are made

    def names(self) -> list[str]:
        """Return the keys at the top that are text, in the order of the document."""
        return [name.value for name, _ in self._entries if _is_text(name)]

    def value(self, key: str) -> object:
        """Return the value of a key at the top; None where there is none.

        Raises:
            SettingsError: A key is there twice, at the top or in that value, a top key is no text, or the value is
                not what it says to be.
        """
        nodes = []
        for name, node in self._entries:
            if not _is_text(name):
                raise SettingsError(f"{self._where}: the key{_at(name)} should be text; write it in quotes")
            nodes += [node] if name.value == key else []
        if len(nodes) > 1:
            raise SettingsError(f"{self._where}: the key {key}{_at(nodes[-1])} is there twice; keep one")
        return self._made(nodes[0], f"{self._where}, {key}") if nodes else None

    def _made(self, node: yaml.Node, where: str) -> object:
        import yaml

        _check(node, where, {}, 0)
        try:
            with self._lock:
                return _loader("").construct_document(node)
        except yaml.YAMLError as error:
            raise SettingsError(f"{where}: is not valid YAML{_place(error)}") from None
        except (RecursionError, *_YAML_FAULTS):
            raise SettingsError(f"{where}: is not valid YAML: a value is not what it says to be") from None


def _is_text(node: yaml.Node) -> bool:
    import yaml

    return isinstance(node, yaml.ScalarNode) and node.tag.endswith(":str")


def _loader(text: str) -> yaml.SafeLoader:
    import yaml

    return yaml.SafeLoader(text)


def _check(node: yaml.Node, where: str, known: dict[int, int], depth: int) -> int:
    """Return how many values a node stands for, aliases followed.

    Raises:
        SettingsError: They are too many, nested too deeply, within themselves, or a key is there twice.
    """
    if depth > DEEPEST:
        raise SettingsError(f"{where}: is not valid YAML: more than {DEEPEST} collections are in each other")
    if id(node) in known:
        count = known[id(node)]
        if not count:
            raise SettingsError(f"{where}: is not valid YAML: what begins{_at(node)} holds itself")
        return count
    known[id(node)] = 0
    count = 1 + sum(_check(child, where, known, depth + 1) for child in _children(node, where))
    if count > MOST_VALUES:
        raise SettingsError(f"{where}: is not valid YAML: with its aliases it has more than {MOST_VALUES:,} values")
    known[id(node)] = count
    return count


def _children(node: yaml.Node, where: str) -> list[yaml.Node]:
    import yaml

    if isinstance(node, yaml.SequenceNode):
        return list(node.value)
    if not isinstance(node, yaml.MappingNode):
        return []
    keys = set()
    for name, _ in node.value:
        if isinstance(name, yaml.ScalarNode):
            if (name.tag, name.value) in keys:
                raise SettingsError(f"{where}: is not valid YAML: the key{_at(name)} is there twice; keep one")
            keys.add((name.tag, name.value))
    return [child for pair in node.value for child in pair]


def _at(node: yaml.Node) -> str:
    mark = node.start_mark
    return f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""


def _place(error: Exception) -> str:
    """Say where and why. PyYAML's own message quotes the line, and that may hold a secret."""
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None)
    place = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
    return f"{place}: {str(problem)[:200]}" if problem else place


CONFIG_FILE = "config.yaml"
SECTIONS = ("approvals", "code_execution", "security", "terminal", "web")
"""The sections that this package reads. The file is shared with other programs, which have others."""
_CLOSE = 0.85
"""As difflib measures likeness: `terminl` is a slip (0.93), `terminal_ui` another program's section (0.84)."""


def hermes_home() -> Path:
    """Return the directory of the user's settings: `HERMES_HOME`, or `~/.hermes` when unset or empty."""
    from pathlib import Path  # which takes its time to import, and most have no such file

    return Path(_home()).expanduser()


def _home() -> str:
    return os.environ.get("HERMES_HOME") or "~/.hermes"


def _path() -> str:
    # As text: most have no such file, and need no `pathlib` for it.
    return os.path.join(os.path.expanduser(_home()), CONFIG_FILE)  # noqa: PTH111, PTH118


def is_config_empty() -> bool:
    """Whether there is no `config.yaml`, or nothing in it. Raises SettingsError if it cannot be read."""
    return not _read(_path()).strip()


def read_config_section(name: str) -> tuple[dict[str, object], str]:
    """Read one section of `config.yaml`. The other sections are left alone: they belong to others.

    Args:
        name: The section's key at the top of the file.

    Returns:
        The section, empty when it or the file is missing, and the path of the file.

    Raises:
        SettingsError: The file cannot be read, is not YAML, it or the section is not a mapping, or the name of a
            section is nearly one of ours: passed over, a misspelt `terminal` would run commands on this machine.
    """
    path = _path()
    text = _read(path)
    section = _document(text, path).value(name) if text.strip() else None
    if section is None:
        return {}, path
    return _string_keys(section, f"{path}, {name}"), path


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path}: is not UTF-8 text: {error.reason} at byte {error.start}") from None


@lru_cache(maxsize=1)  # each section is asked for apart, and reading a long file takes 50 ms
def _document(text: str, path: str) -> Document:
    from environments.config import read_mapping

    document = read_mapping(text, path)
    for name in document.names():
        if name not in SECTIONS and (near := _near_section(name)):
            raise SettingsError(
                f"{path}: no such section {name[:100]!r} (did you mean {near!r}?); sections of other programs are left "
                f"alone, but for those whose names are as near to one of ours: {', '.join(SECTIONS)}"
            )
    return document


def _near_section(name: str) -> str | None:
    from difflib import get_close_matches

    plain = name.strip().lower().replace("-", "_").replace(" ", "_")
    return next(iter(get_close_matches(plain, SECTIONS, n=1, cutoff=_CLOSE)), None)


def _string_keys(value: object, where: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise SettingsError(f"{where}: it should be a mapping of names to values, not a {type(value).__name__}")
    for key in value:
        if not isinstance(key, str):
            raise SettingsError(f"{where}: the key {str(key)[:100]} should be text; write it in quotes")
    return value


Layer = dict[str, Given]

_lock = threading.Lock()
_warned: set[str] = set()


def config_layer(section: str) -> Layer:
    """Return a section of `config.yaml` as a layer for `validated`.

    An empty text is taken as not set. What the older system called otherwise has the name that it has here, and what
    it alone had is left out with a warning.

    Raises as `read_config_section`.
    """
    if is_config_empty():
        return {}
    from environments.legacy import OLDER  # a long table, which a run on the defaults does without

    sections = {section: _layer(section)}
    for older in OLDER:
        if older.section != section and _reads(section, older) and older.section not in sections:
            sections[older.section] = _layer_of_others(older.section)
    return translated(section, sections)


def translated(section: str, sections: Mapping[str, Layer]) -> Layer:
    """Return the layer of a section, with what the older system wrote in it, and elsewhere, taken for what it is here.

    Args:
        section: A section that is ours.
        sections: What was found, by section.
    """
    layer = dict(sections[section])
    if not any(sections.values()):
        return layer
    from environments.legacy import OLDER

    for older in OLDER:
        given = sections.get(older.section, {}).get(older.key)
        if given is not None and _reads(section, older) and not older.backend:
            _translate(older, given, layer, section)
    return layer


def of_backend(layer: Layer, backend: str) -> Layer:
    """Return a layer with what the older system had for one backend alone taken for what it is here.

    Args:
        layer: Settings of the section `terminal`.
        backend: The backend. What there was for others is left out.
    """
    layer = dict(layer)
    if not layer:
        return layer
    from environments.legacy import OLDER

    for older in OLDER:
        if older.backend and (given := layer.pop(older.key, None)) and older.backend == backend:
            if older.goes_first and given.value is not None:
                layer.pop(older.here.partition(".")[2], None)
            if not older.says_nothing(given.value):
                _move(older, given, layer)
    return layer


def warn_once(about: str, message: str) -> None:
    """Log a warning, unless this process has had one about the same."""
    with _lock:
        if about in _warned:
            return
        _warned.add(about)
    from environments.log import logger  # with the first warning, as logging takes its time to import

    logger(__name__).warning("%s", message)


def _layer(section: str) -> Layer:
    values, path = read_config_section(section)
    return {key: Given(None if value == "" else value, f"{path}, {section}.{key}") for key, value in values.items()}


def _layer_of_others(section: str) -> Layer:
    """Return a section that is not ours, whose faults are none of our business."""
    with suppress(SettingsError):
        return _layer(section)
    return {}


def _reads(section: str, older: Older) -> bool:
    """Whether a setting of the older system is looked at with a section."""
    from environments.legacy import READ_FOR

    return (older.here or READ_FOR.get(older.name) or older.name).partition(".")[0] == section


def _translate(older: Older, given: Given, layer: Layer, section: str) -> None:
    is_set = not older.says_nothing(given.value)
    if older.is_same:
        layer[older.key] = given if is_set else Given(None, given.where)
        return
    if older.section == section:
        del layer[older.key]
    if is_set:
        _move(older, given, layer)


def _move(older: Older, given: Given, layer: Layer) -> None:
    if not older.here:
        warn_once(older.name, f"{given.where}: passed over: {older.note}")
        return
    value = given.value
    if older.values is not None:
        word = str(value).strip().lower()
        if word not in older.values:
            warn_once(older.name, f"{given.where}: {value!r:.50} is passed over: {older.note}")
            return
        value = older.values[word]
    if older.converted:
        value = older.converted(value)
    key = older.here.partition(".")[2]
    if layer.get(key) is None or layer[key].value is None:
        layer[key] = Given(value, given.where)
