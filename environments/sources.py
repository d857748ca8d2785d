"""Sources of settings, and their merge.

In rising priority: defaults, the section `terminal:` of `config.yaml` in `HERMES_HOME`, the variables `TERMINAL_*`, the
arguments of `create_environment`. The setting `image` of backend `docker` is the variable `TERMINAL_DOCKER_IMAGE`; in
the file and as an argument it is `image` or `docker_image`. Variables hold lists and mappings as JSON. Empty text in
the file and in variables means unset.

An unknown name similar to a known one is an error; any other unknown name is ignored with a warning, as the file is
shared with hermes-agent, whose next release may have more names. An unknown argument is an error.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import fields, replace
from functools import cache, lru_cache
from threading import Lock
from typing import TYPE_CHECKING

from environments.errors import SettingsError, TerminalError, UnsupportedError
from environments.registry import BUILT_IN, backend_names, backend_settings_class, check_backend_name
from environments.settings import RESOURCE_SETTINGS, BackendSettings, EnvironmentSettings, config_path
from environments.validation import (
    NEAR,
    SLIP,
    Given,
    Layer,
    closest,
    from_file,
    from_variable,
    nearest,
    setting_names,
    validated,
)
from environments.variables import own_variables

if TYPE_CHECKING:
    import yaml

LONGEST = 1_000_000
"""Maximum characters of a document."""
DEEPEST = 50
"""Maximum depth of nested collections."""
_DEEPEST_ELSEWHERE = 200
"""Maximum depth in other programs' sections: PyYAML takes seconds for 1,500."""
MOST_VALUES = 50_000
"""Maximum values of a section, counting each repetition by an alias."""


def read_mapping(text: str, where: str) -> Document:
    """Parse a YAML document with a mapping at the top.

    Args:
        text: The document.
        where: Name of the document in errors. Errors never quote the document, which may hold secrets.

    Raises:
        SettingsError: The text is not valid YAML, not a mapping, or longer than `LONGEST`.
    """
    import yaml

    if len(text) > LONGEST:
        raise SettingsError(f"{where}: it is longer than {LONGEST:,} characters")
    with _faults_refused(where):
        root = _loader()(text).get_single_node()
    if root is None or (isinstance(root, yaml.ScalarNode) and root.tag.endswith(":null")):
        return Document([], where)
    if not isinstance(root, yaml.MappingNode):
        kind = "text" if isinstance(root, yaml.ScalarNode) else "list"
        raise SettingsError(f"{where}: it should be a mapping of names to values, not a {kind}")
    return Document(root.value, where)


@cache
def _loader() -> type[yaml.SafeLoader]:
    """Return a loader that refuses deep documents before reading further."""
    import yaml

    class Loader(yaml.SafeLoader):
        depth = 0

        def fetch_flow_collection_start(self, token: type[yaml.Token]) -> None:
            if self.flow_level > _DEEPEST_ELSEWHERE:  # the scanner reads up to 1,024 levels ahead
                raise RecursionError
            super().fetch_flow_collection_start(token)

        def compose_node(self, parent: yaml.Node | None, index: object) -> yaml.Node | None:
            self.depth += 1
            if self.depth > _DEEPEST_ELSEWHERE:
                raise RecursionError
            node: yaml.Node | None = super().compose_node(parent, index)  # type: ignore[arg-type]
            self.depth -= 1
            return node

    return Loader


class Document:
    """A YAML document. Values are built on request, so that faults elsewhere in the document do not matter.

    Args:
        entries: Keys and values at the top.
        where: Name of the document in errors.
    """

    def __init__(self, entries: list[tuple[yaml.Node, yaml.Node]], where: str) -> None:
        self._entries = entries
        self._where = where
        self._lock = Lock()  # building a value merges << keys into the nodes

    def names(self) -> dict[str, list[str] | None]:
        """Return the text keys at the top, each with the keys of its mapping; None if the value is not a mapping."""
        import yaml

        found: dict[str, list[str] | None] = {}
        for name, node in self._entries:
            if _is_text(name):
                is_mapping = isinstance(node, yaml.MappingNode)
                keys = [key.value for key, _ in node.value if _is_text(key)] if is_mapping else []
                found[name.value] = keys if is_mapping or node.tag.endswith(":null") else None
        return found

    def value(self, key: str) -> object:
        """Return the value of a key at the top; None if missing.

        Raises:
            SettingsError: A key occurs twice, at the top or in the value; a top key is not text; or the value does not
                fit its tag, is nested too deeply or is too large.
        """
        import yaml

        nodes = []
        for name, node in self._entries:
            if not _is_text(name):
                raise SettingsError(f"{self._where}: the key{_at(name.start_mark)} should be text; write it in quotes")
            nodes += [node] if name.value == key else []
        if len(nodes) > 1:
            raise SettingsError(f"{self._where}: the key {key}{_at(nodes[-1].start_mark)} is there twice; keep one")
        if not nodes:
            return None
        where = f"{self._where}, {key}"
        _check(nodes[0], where, {}, 0)
        with _faults_refused(where), self._lock:
            return yaml.SafeLoader("").construct_document(nodes[0])


@contextlib.contextmanager
def _faults_refused(where: str) -> Iterator[None]:
    """Convert PyYAML errors to settings errors, without PyYAML's message, which quotes the line."""
    import yaml

    try:
        yield
    except yaml.YAMLError as error:
        problem = getattr(error, "problem", None)
        reason = _at(getattr(error, "problem_mark", None)) + (f": {str(problem)[:200]}" if problem else "")
    except RecursionError:
        reason = ": it is nested too deeply"
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):  # such as an impossible date
        reason = ": a value does not fit its type"
    else:
        return
    raise SettingsError(f"{where}: is not valid YAML{reason}") from None


def _is_text(node: yaml.Node) -> bool:
    import yaml

    return isinstance(node, yaml.ScalarNode) and node.tag.endswith(":str")


def _check(node: yaml.Node, where: str, counts: dict[int, int], depth: int) -> int:
    """Return the number of values of a node, following aliases; refuse excess size, excess depth and duplicate keys."""
    import yaml

    if depth > DEEPEST:
        raise SettingsError(f"{where}: is not valid YAML: more than {DEEPEST} collections are in each other")
    if counts.get(id(node)) == 0:
        raise SettingsError(f"{where}: is not valid YAML: the collection{_at(node.start_mark)} holds itself")
    if id(node) not in counts:
        counts[id(node)] = 0
        children = list(node.value) if isinstance(node, yaml.SequenceNode) else []
        keys = set()
        for name, value in node.value if isinstance(node, yaml.MappingNode) else ():
            if isinstance(name, yaml.ScalarNode):
                if (name.tag, name.value) in keys:
                    raise SettingsError(
                        f"{where}: is not valid YAML: the key{_at(name.start_mark)} is there twice; keep one"
                    )
                keys.add((name.tag, name.value))
            children += [name, value]
        count = 1 + sum(_check(child, where, counts, depth + 1) for child in children)
        if count > MOST_VALUES:
            raise SettingsError(f"{where}: is not valid YAML: with its aliases it has more than {MOST_VALUES:,} values")
        counts[id(node)] = count
    return counts[id(node)]


def _at(mark: yaml.Mark | None) -> str:
    return f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""


SECTIONS: Mapping[str, Collection[str]] = {
    "approvals": ("allow", "ask", "commands", "deny", "destructive_commands", "scripts", "timeout", "tools"),
    "code_execution": (
        *("kernel_mode", "max_stderr_bytes", "max_stdout_bytes", "max_tool_calls", "mcp_servers", "mode"),
        *("skill_env_allowlist", "timeout", "tool_errors"),
    ),
    "security": (),
    "terminal": (),
    "web": (
        *("allow_private", "brave_url", "extract_char_limit", "max_bytes", "search_provider", "searxng_url"),
        *("tavily_url", "timeout", "user_agent"),
    ),
}
"""Sections of `config.yaml` used here, with their keys. Keys of `terminal` are in `GENERAL` and in the backends'
settings; keys of `security` belong to hermes-agent. All other sections belong to other programs."""
GUARDS = (
    *("destructive_commands", "local_sandbox", "scrub_env", "write_denylist", "write_safe_root"),
    *("bubblewrap_network", "daytona_network", "docker_network", "modal_network", "singularity_network"),
)
"""Security settings with unique names: an error in sections of other programs."""


def is_config_empty() -> bool:
    """Return True if `config.yaml` is missing or empty. Raises SettingsError if the file cannot be read."""
    return not _read(config_path()).strip()


def read_config_section(name: str) -> tuple[dict[str, object], str]:
    """Read one section of `config.yaml`.

    Args:
        name: Key of the section at the top of the file.

    Returns:
        The section, empty if missing, and the path of the file.

    Raises:
        SettingsError: The file cannot be read, is not a regular file or is not YAML; file or section is not a mapping;
            a section's name is similar to a known one; or a known setting stands outside of its section. Ignoring such
            a setting could run commands on this machine, or without a guard.
    """
    path = config_path()
    text = _read(path)
    section = _document(text, path).value(name) if text.strip() else None
    if section is None:
        return {}, path
    if name == "security" and not isinstance(section, dict):  # a section of hermes-agent, not validated here
        return {}, path
    if not isinstance(section, dict):
        kind = type(section).__name__
        raise SettingsError(f"{path}, {name}: it should be a mapping of names to values, not a {kind}")
    for key in section:
        if not isinstance(key, str):
            raise SettingsError(f"{path}, {name}: the key {str(key)[:100]} should be text; write it in quotes")
    return section, path


def config_layer(section: str) -> Layer:
    """Return a section of `config.yaml` for `validated`, without unknown keys.

    Empty text means unset. Keys of hermes-agent are translated.

    Args:
        section: `approvals`, `code_execution` or `web`.

    Raises:
        SettingsError: See `read_config_section`; or a key is similar to a known one, or belongs to another section.
    """
    names, kept = SECTIONS[section], {}
    for name, given in _file_layer(section).items():
        if name in names:
            kept[name] = given
        elif sections := _sections_of(name):
            raise SettingsError(f"{given.where}: is a setting of the section {sections}; write it there")
        elif hint := closest(name, names, NEAR) or closest(name, _homes(), SLIP):
            raise SettingsError(f"{given.where}: no such setting{hint}; allowed: {', '.join(names)}")
        else:
            _pass_over(given)
    return kept


def _file_layer(section: str) -> Layer:
    if is_config_empty():
        return {}
    from environments.legacy import translated  # a long table, not needed on defaults

    return translated(section, _section_layer(section), _section_layer)


def _section_layer(section: str) -> Layer:
    values, path = read_config_section(section)
    return {key: Given(None if value == "" else value, f"{path}, {section}.{key}") for key, value in values.items()}


def _read(path: str) -> str:
    try:
        # Does not wait for the writer of a FIFO.
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            mode = os.fstat(file.fileno()).st_mode
            if stat.S_ISREG(mode):
                return file.read(4 * LONGEST + 1).decode("utf-8")
            kind = "FIFO" if stat.S_ISFIFO(mode) else "device"
    except FileNotFoundError:
        return ""
    except IsADirectoryError:
        kind = "directory"
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path}: is not UTF-8 text: {error.reason} at byte {error.start}") from None
    raise SettingsError(f"{path}: is a {kind}; put a file of YAML in its place, or remove it")


@lru_cache(maxsize=1)  # sections are requested one by one, and parsing a long file takes 50 ms
def _document(text: str, path: str) -> Document:
    document = read_mapping(text, path)
    for name, keys in document.names().items():
        if name == "approvals" and document.value(name) is None:
            raise SettingsError(f"{path}, approvals: has nothing in it; indent the rules below it, or remove the line")
        if name not in SECTIONS:
            _check_top(name, keys, document, path)
        if name not in SECTIONS or name == "security":
            for key in keys or ():
                if key in GUARDS or (name == "security" and key in ("allow", "ask", "deny")):
                    raise SettingsError(
                        f"{path}, {name}.{key}: has no effect there; write it in the section {_sections_of(key)}"
                    )
    return document


def _check_top(name: str, keys: list[str] | None, document: Document, path: str) -> None:
    """Refuse a top key equal or similar to a section or a setting, and warn of a common setting name.

    A mapping under any other name, except those of `GUARDS`, is another program's section.
    """
    plain = name.strip().lower().replace("-", "_").replace(" ", "_")
    if near := nearest(plain, SECTIONS, SLIP):
        raise SettingsError(
            f"{path}: no such section {name[:100]!r} (did you mean {near!r}?); sections of other programs are left "
            f"alone, but for those whose names are as near to one of ours: {', '.join(SECTIONS)}"
        )
    if keys is not None and name not in GUARDS:
        return
    distinct = _distinct_names()
    chooses = name in ("backend", "env") and document.value(name) in backend_names()
    if chooses or name in distinct:
        raise SettingsError(f"{path}, {name}: has no effect there; write it in the section {_sections_of(name)}")
    if near := nearest(plain, [known for known in distinct if len(known) > 7], SLIP):
        raise SettingsError(
            f"{path}, {name[:100]}: has no effect there (did you mean {near!r}?); write it in the section "
            f"{_sections_of(near)}"
        )
    if sections := _sections_of(name):
        _pass_over(Given(None, f"{path}, {name}"), f"a setting of this name belongs in the section {sections}")


@cache
def _distinct_names() -> frozenset[str]:
    """Return the settings refused at the top: general ones, prefixed ones, rules and guards."""
    prefixed = [name for backend in BUILT_IN for name in _prefixed(backend_settings_class(backend))]
    guards = (*GUARDS, "network", *setting_names(backend_settings_class("local")))  # all are for local's sandbox
    return frozenset({*GENERAL, *SECTIONS["approvals"], *guards, *prefixed} - {"env"})


@cache
def _homes() -> Mapping[str, tuple[str, ...]]:
    """Return the sections of each setting by its names in the file, including those of hermes-agent."""
    from environments.legacy import HERMES_AGENT_SETTINGS

    homes: dict[str, tuple[str, ...]] = {}
    built_in = [_prefixed(backend_settings_class(backend)).items() for backend in BUILT_IN]
    names = [name for settings in built_in for both in settings for name in both]
    ours = [("terminal", name) for name in ("backend", *GENERAL, *names)]
    ours += [(section, name) for section, names in SECTIONS.items() for name in names]
    for section, name in (
        *ours,
        *((older.section, older.key) for older in HERMES_AGENT_SETTINGS if older.section != "security"),
    ):
        homes[name] = tuple(dict.fromkeys((*homes.get(name, ()), section)))
    return homes


def _sections_of(name: str) -> str:
    """Return the sections of a setting, as words for an error; empty if unknown."""
    return " or ".join(_homes().get(name, ()))


def _pass_over(given: Given, why: str = "there is no such setting") -> None:
    from environments.log import warn_once

    warn_once(given.where, f"{given.where}: passed over: {why}")


VARIABLE_PREFIX = "TERMINAL_"
GENERAL = frozenset(setting_names(EnvironmentSettings))


def load_settings(backend: str | None = None, **overrides: object) -> EnvironmentSettings:
    """Merge the settings of all sources.

    Args:
        backend: Name of a backend, or a class as `package.module:Class`; None uses the configured backend.
        overrides: Settings by name.

    Returns:
        General settings, with the backend's in `own`. Settings of other backends are ignored, valid or not.

    Raises:
        SettingsError: A name is unknown, or a value is not allowed. The message names source, key and remedy.
        UnsupportedError: `over` is set, and the backend has no engine to run on another machine.
        MissingExtraError: The client library of an external backend is not installed.
    """
    file, variables = _terminal_layer(), _variable_layer()
    env, over = _chosen(backend, overrides, variables, file)
    names = _Names(env, over)
    if file or variables:
        from environments.legacy import translated_for  # a long table

        file, variables = translated_for(env, file), translated_for(env, variables)
    arguments = names.of_arguments(overrides, named=backend is not None)
    settings = names.settings([names.of_file(file), names.of_variables(variables), names.without_foreign(arguments)])
    if other := settings.own.leads_to():
        env, values = other
        settings = replace(settings, env=env, own=backend_settings_class(env)(**values))
    if not any(getattr(settings, name) for name in RESOURCE_SETTINGS):
        return settings
    from environments.legacy import with_default_limits

    return with_default_limits(settings, [name for name, given in arguments.items() if given.value is not None])


def with_full_names(backend: str | None, overrides: Mapping[str, object]) -> dict[str, object]:
    """Return overrides of `load_settings` with full names, prefixes added.

    Args:
        backend: Backend of the overrides; None is the configured backend.
        overrides: Settings by name.

    Raises:
        SettingsError: The backend is unknown, or a setting is given under two names.
    """
    names = _Names(*_chosen(backend, overrides, _variable_layer(), _terminal_layer()))
    layer = names.of_arguments(overrides, named=backend is not None)
    return {name: given.value for name, given in layer.items()}


class _Names:
    """The valid setting names for a backend: general, its own with and without prefix, and those of `over`."""

    def __init__(self, backend: str, over: str | None) -> None:
        self._backend = backend
        self._over = over
        self._own_class = backend_settings_class(backend)
        self._over_class = backend_settings_class(over) if over else BackendSettings
        self._own = _prefixed(self._own_class)
        self._of_over = _prefixed(self._over_class)
        self._prefixes = tuple(filter(None, (self._own_class.prefix, self._over_class.prefix, "container_")))
        self._known = frozenset(GENERAL | self._own.keys() | self._of_over.keys())

    def of_file(self, layer: Layer) -> Layer:
        """Return the values of `config.yaml` for this backend, by full name."""
        kept = {}
        classes = (self._own_class, self._over_class)
        secrets = {own.prefix + each.name for own in classes for each in fields(own) if each.metadata.get("secret")}
        for name, given in self.without_foreign(self._unabbreviated(layer)).items():
            if name in secrets and given.value is not None:
                variable = VARIABLE_PREFIX + name.upper()
                raise SettingsError(f"{given.where}: secrets are not read from a file; set {variable} instead")
            if name in self._known:
                kept[name] = from_file(given, self._default(name))
            elif hint := self._hint(name, NEAR):
                raise self._unknown(given, hint, name)
            else:
                _pass_over(given)
        return kept

    def of_variables(self, layer: Layer) -> Layer:
        """Return the values of variables for this backend.

        A name without our prefixes and unlike our names belongs to another program: editors set TERMINAL_EMULATOR.
        """
        kept = {}
        for name, given in self.without_foreign(layer).items():
            if name in self._known:
                kept[name] = from_variable(given, self._default(name))
            elif near := self._nearest(name, self._known, SLIP):
                raise self._unknown(given, f" (did you mean {VARIABLE_PREFIX}{near.upper()}?)")
            elif name.startswith(self._prefixes) or nearest(name, (*self._known, *self._own.values()), NEAR):
                _pass_over(given)
        return kept

    def of_arguments(self, overrides: Mapping[str, object], *, named: bool) -> Layer:
        """Return all arguments by full name, including those for other backends.

        If the backend is named separately, `env` is a setting of that backend, such as docker_env. Otherwise `env`
        names the backend.
        """
        layer: Layer = {}
        for key, value in overrides.items():
            full = self._own_class.prefix + key
            name = full if full in self._own and (named or key not in GENERAL) else key
            if name in layer:
                raise SettingsError(f"argument {key}: {self._own.get(name, name)} is given twice; keep one")
            if name == "env" and value not in (None, self._backend):
                raise SettingsError(f"argument env: the backend is already given as {self._backend!r}; keep one")
            given = Given(os.fspath(value) if isinstance(value, os.PathLike) else value, f"argument {key}")
            if name not in self._known and not self._is_foreign(name):
                by_word = (f" (did you mean {own!r}?)" for own in self._own.values() if own in name.split("_"))
                hint = self._hint(name, 0.6) or next(by_word, "") or _hint_at_others(name)
                raise self._unknown(given, hint, name)
            layer[name] = given
        return layer

    def without_foreign(self, layer: Layer) -> Layer:
        """Drop the settings of other backends."""
        return {name: given for name, given in layer.items() if name in self._known or not self._is_foreign(name)}

    def settings(self, layers: Iterable[Layer]) -> EnvironmentSettings:
        """Validate the values of all layers, later layers overriding earlier ones, and build the settings."""
        kept: list[Layer] = []
        for layer in layers:
            names = [name for name, given in layer.items() if given.value is not None]
            aside = {other for name in names for other in self._own_class.puts_aside.get(name, ())}
            kept = [{name: given for name, given in lower.items() if name not in aside} for lower in kept]
            kept.append(layer)

        def named(names: Mapping[str, str]) -> list[Layer]:
            return [{names[name]: given for name, given in layer.items() if name in names} for layer in kept]

        return replace(
            validated(EnvironmentSettings, *named({name: name for name in GENERAL})),
            env=self._backend,
            over=self._over,
            own=validated(self._own_class, *named(self._own)),
            own_over=validated(self._over_class, *named(self._of_over)) if self._over else None,
        )

    def _unabbreviated(self, layer: Layer) -> Layer:
        """Add the prefix of the file's backend to its settings; without a backend in the file, of this backend."""
        written = layer.get("env")
        backend = written.value if written and written.value is not None else self._backend
        if backend != self._backend and backend not in list(BUILT_IN):
            return layer  # an external backend, possibly not installed here; or not text
        own = {short: full for full, short in _prefixed(backend_settings_class(str(backend))).items()}
        full_names = {}
        for name, given in layer.items():
            full = own.get("env", "env") if name == _ENV_MAPPING else name if name in GENERAL else own.get(name, name)
            if full in full_names:
                raise SettingsError(f"{given.where}: {name} is there under two names; keep one")
            full_names[full] = given
        return full_names

    def _default(self, name: str) -> object:
        if name in GENERAL:
            return getattr(EnvironmentSettings(), name)
        if name in self._of_over:
            return getattr(self._over_class(), self._of_over[name])
        return getattr(self._own_class(), self._own[name])

    def _is_foreign(self, name: str) -> bool:
        prefixes = [_prefix(other) for other in BUILT_IN]
        if not name.startswith(tuple(prefixes)):
            prefixes = [_prefix(other) for other in backend_names()]  # scans all installed entry points
        own = self._own_class.prefix
        longest = max((prefix for prefix in (*prefixes, own) if name.startswith(prefix)), key=len, default="")
        return longest not in ("", own, self._over_class.prefix)

    def _nearest(self, name: str, names: Iterable[str], cutoff: float) -> str | None:
        """Return the most similar name. A prefixed name is compared without its prefix to names of the same prefix."""
        prefix = next((prefix for prefix in self._prefixes if name.startswith(prefix)), "")
        if not prefix:
            return nearest(name, names, cutoff)
        short = [known.removeprefix(prefix) for known in self._known if known.startswith(prefix)]
        near = nearest(name.removeprefix(prefix), short, NEAR)
        return prefix + near if near else None

    def _hint(self, name: str, cutoff: float) -> str:
        """Return a hint at backends or sections with this setting, or at the most similar name; empty if none."""
        others = [other for other in BUILT_IN if name in setting_names(backend_settings_class(other))]
        if len(others) == 1:
            return f" (did you mean {_prefix(others[0]) + name!r}?)"
        if others:
            return f"; backends {', '.join(others)} have it: name one of them beside it, as backend"
        if sections := _sections_of(name):
            return f"; it is one of the section {sections} of config.yaml"
        if near := self._nearest(name, ("backend", *self._known, *self._own.values()), cutoff):
            return f" (did you mean {self._own.get(near, near)!r}?)"
        return closest(name, [other for other in _homes() if "_" in other], SLIP)

    def _unknown(self, given: Given, hint: str, name: str = "") -> TerminalError:
        if name == "network":
            return UnsupportedError(
                f"{given.where}: backend {self._backend!r} cannot restrict the network of commands; use "
                "bubblewrap, docker, singularity, modal or daytona, or leave it unset"
            )
        hint = hint or f"; allowed: {', '.join([*sorted(GENERAL), *self._own.values(), *self._of_over])}"
        return SettingsError(f"{given.where}: no such setting of backend {self._backend!r}{hint}")


def _hint_at_others(name: str) -> str:
    """Return a hint at the most similar setting of any backend, or at a setting contained in the name; or empty."""
    theirs = {other: setting_names(backend_settings_class(other)) for other in BUILT_IN}
    every = {own for names in theirs.values() for own in names}
    near = nearest(name, every, 0.6) or next((word for word in name.split("_") if word in every), None)
    having = ", ".join(other for other, names in theirs.items() if near in names)
    return f" (did you mean {near!r}, a setting of {having}?)" if near else ""


_ENV_MAPPING = "\0env"
"""Key for `env` in the file if its value is the backend's variables instead of the backend's name."""


def _terminal_layer() -> Layer:
    layer = _file_layer("terminal")
    named = layer.pop("backend", None)
    if named is not None and named.value is not None:
        env = layer.get("env")
        if env is not None and isinstance(env.value, Mapping):
            layer[_ENV_MAPPING] = env
        elif env is not None:
            raise SettingsError(f"{named.where}: terminal.env is there too, and means the same; keep one")
        layer["env"] = named
    return layer


def _variable_layer() -> Layer:
    found = {
        variable.removeprefix(VARIABLE_PREFIX).lower(): Given(text or None, f"variable {variable}")
        for variable, text in own_variables().items()
        if variable.startswith(VARIABLE_PREFIX)
    }
    if "env" in found and found["env"].value is None:  # an empty backend name is never ignored
        raise SettingsError(f"{found['env'].where}: it should be the name of a backend: {', '.join(backend_names())}")
    if not found:
        return found
    from environments.legacy import translated

    return translated("terminal", found, lambda _: {})


def _chosen(
    backend: str | None, overrides: Mapping[str, object], variables: Layer, file: Layer
) -> tuple[str, str | None]:
    """Return the backend, and the backend that leads to its engine; None for an engine on this machine."""
    named = Given(overrides.get("env"), "argument env") if backend is None else Given(backend, "argument backend")
    env = EnvironmentSettings().env
    for given in (named, variables.get("env"), file.get("env")):
        if given is not None and given.value is not None:
            if not isinstance(given.value, str) or not given.value:
                raise SettingsError(f"{given.where}: it should be the name of a backend: {', '.join(backend_names())}")
            check_backend_name(given.value, given.where)
            env = given.value
            break
    argument = Given(overrides.get("over"), "argument over")
    sources = (argument, variables.get("over"), file.get("over"))
    over = next((given for given in sources if given is not None and given.value is not None), None)
    if over is None or (named.value is not None and over is not argument and not _has_engine(env)):
        return env, None  # a configured `over` does not apply to a backend without an engine
    _check_over(env, over)
    return env, str(over.value)


def _has_engine(backend: str) -> bool:
    return backend_settings_class(backend).goes_over


def _check_over(backend: str, given: Given) -> None:
    """Refuse a value of `over` that leads to no machine with an engine, and a backend without an engine."""
    if not _has_engine(backend):
        raise UnsupportedError(
            f"{given.where}: backend {backend!r} has no engine that could be on another machine; leave over "
            f"(TERMINAL_OVER) unset, or use {' or '.join(filter(_has_engine, BUILT_IN))}"
        )
    carriers = [name for name in BUILT_IN if backend_settings_class(name).carries]
    if given.value not in carriers:
        raise SettingsError(
            f"{given.where}: {given.value!r} does not lead to a machine with an engine"
            f"{closest(str(given.value), carriers)}; allowed: {', '.join(carriers)}"
        )


def _prefixed(own: type[BackendSettings]) -> dict[str, str]:
    """Return a backend's short setting names by full name."""
    return {own.prefix + name: name for name in setting_names(own)}


def _prefix(backend: str) -> str:
    return backend.lower().replace("-", "_") + "_"
