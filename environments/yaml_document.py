"""Reading YAML that others have written, without its costing more than it is long."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

from environments.errors import SettingsError

if TYPE_CHECKING:
    import yaml

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
