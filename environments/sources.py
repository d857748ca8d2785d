"""Where settings come from.

In rising order: the defaults, the section `terminal:` of `config.yaml` in `HERMES_HOME`, the variables
`TERMINAL_*`, the arguments of `create_environment`. The variable of a setting is its name in capitals after
`TERMINAL_`; lists and mappings are written there as JSON. In the file and in variables an empty text is not set.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import fields, replace
from typing import Any

from environments.config import Layer, config_layer, of_backend, translated, warn_once
from environments.errors import SettingsError, TerminalError, UnsupportedError
from environments.registry import BUILT_IN, backend_names, backend_settings_class, check_backend_name
from environments.settings import RESOURCE_SETTINGS, BackendSettings, EnvironmentSettings
from environments.validation import Given, closest, from_file, from_variable, setting_names, validated


class UnheldLimitsError(UnsupportedError):
    """A target cannot hold limits that it was asked for.

    Args:
        message: What to do about it.
        names: Names of the limits.
        why: Why it cannot.
    """

    def __init__(self, message: str, names: Collection[str] = (), why: str = "") -> None:
        super().__init__(message)
        self.names = frozenset(names)
        self.why = why


def told_apart(settings: EnvironmentSettings, chosen: Collection[str]) -> EnvironmentSettings:
    """Return settings that say which limits are such defaults, without those that the backend never holds.

    Args:
        settings: What was loaded.
        chosen: Names of the settings that an argument gave, which somebody did choose.
    """
    if not any(getattr(settings, name) for name in RESOURCE_SETTINGS):
        return settings
    from environments.legacy import DEFAULT_LIMITS  # with its whole table, which a run on the defaults does without

    defaults = {
        name for name, value in DEFAULT_LIMITS.items() if getattr(settings, name) == value and name not in chosen
    }
    if not defaults:
        return settings
    settings = replace(settings, default_limits=frozenset(defaults))
    return without(settings, settings.own.unheld(settings), "that is not to be had there")


def going_without(settings: EnvironmentSettings, error: UnheldLimitsError) -> EnvironmentSettings:
    """Return settings without the limits that could not be held, as far as nobody chose them.

    Raises `error` if all were chosen.
    """
    if not settings.default_limits & error.names:
        raise error
    return without(settings, error.names, error.why)


def without(settings: EnvironmentSettings, unheld: Collection[str], why: str) -> EnvironmentSettings:
    """Return settings without those limits that are defaults and cannot be held, of which a warning tells.

    Args:
        settings: All settings.
        unheld: Names of the limits that cannot be held.
        why: Why they cannot.
    """
    from environments.legacy import DEFAULT_LIMITS

    names = [name for name in DEFAULT_LIMITS if name in settings.default_limits and name in unheld]
    if not names:
        return settings
    each = "it is" if len(names) == 1 else "each is"
    warn_once(
        f"limits {settings.env} {names}",
        f"backend {settings.env!r} does not enforce {', '.join(names)}: {why}. As {each} what hermes-agent sets by "
        "default, it is passed over; another value is refused, and 0 is no limit and no warning",
    )
    unset: dict[str, Any] = dict.fromkeys(names)
    return replace(settings, default_limits=settings.default_limits.difference(names), **unset)


def chosen_over(backend: str, argument: Given, configured: Iterable[Given], *, is_named: bool) -> str | None:
    """Return the backend that another one is had over; None if its engine is on this machine.

    Args:
        backend: The one that has an engine.
        argument: What the argument `over` says.
        configured: What the other sources say, the first over the rest.
        is_named: Whether an argument names the backend. What is configured for another is then not meant for one
            that has no engine.

    Raises:
        SettingsError: What is named leads to no such machine.
        UnsupportedError: The backend has no engine that could be on one.
    """
    goes = backend_settings_class(backend).goes_over
    given = next((given for given in (argument, *configured) if given.value is not None), None)
    if given is None or (is_named and not goes and given is not argument):
        return None
    if not goes:
        others = " or ".join(name for name in BUILT_IN if backend_settings_class(name).goes_over)
        raise UnsupportedError(
            f"{given.where}: backend {backend!r} has no engine that could be on another machine; leave over "
            f"(TERMINAL_OVER) unset, or use {others}"
        )
    carriers = [name for name in BUILT_IN if backend_settings_class(name).carries]
    if given.value not in carriers:
        raise SettingsError(
            f"{given.where}: {given.value!r} does not lead to a machine with an engine"
            f"{closest(str(given.value), carriers)}; allowed: {', '.join(carriers)}"
        )
    return str(given.value)


VARIABLE_PREFIX = "TERMINAL_"
SECTION = "terminal"
GENERAL = frozenset(setting_names(EnvironmentSettings))
_LIMITS = "container_"
_CLOSE = 0.85
"""As difflib measures likeness: TERMINAL_TIMOUT is a slip (0.92), TERMINAL_EMULATOR another program's own."""


def load_settings(backend: str | None = None, **overrides: object) -> EnvironmentSettings:
    """Bring the settings together from all sources.

    Args:
        backend: The backend's name, over all sources; None leaves it to them.
        overrides: Settings over all sources, by name; None means not set. The backend's own prefix may be left out.

    Returns:
        The settings that all backends share, with those of this backend in `own`. What is set for other backends is
        left alone, right or wrong.

    Raises:
        SettingsError: A name is unknown, or a value is not allowed. It names source, key and remedy.
        MissingExtraError: A backend installed apart lacks its client library.
    """
    file, variables = _file_layer(), _variable_layer()
    env, over = _chosen(backend, overrides, variables, file)
    names = _Names(env, over)
    names.refuse_secrets(file)
    file = {name: from_file(given, names.default(name)) for name, given in of_backend(file, env).items()}
    variables = {
        name: from_variable(given, names.default(name))
        for name, given in of_backend(variables, env).items()
        if names.may_be_meant(name)
    }
    arguments = _argument_layer(names, overrides, named=backend is not None)
    settings = names.settings(names.without_foreign(layer) for layer in (file, variables, arguments))
    if other := settings.own.leads_to():
        env, values = other
        settings = replace(settings, env=env, own=backend_settings_class(env)(**values))
    return told_apart(settings, [name for name, given in arguments.items() if given.value is not None])


def with_full_names(backend: str | None, overrides: Mapping[str, object]) -> dict[str, object]:
    """Return overrides of `load_settings` with the prefixes that were left out.

    Args:
        backend: The backend they are for; None is the configured one.
        overrides: Settings by name.

    Raises:
        SettingsError: The backend is unknown, or a setting is given under two names.
    """
    names = _Names(*_chosen(backend, overrides, _variable_layer(), _file_layer()))
    layer = _argument_layer(names, overrides, named=backend is not None)
    return {name: given.value for name, given in layer.items()}


class _Names:
    """The names that may be set for one backend: the general ones, and its own behind its prefix.

    Beside them stand those of the backend that it is had over, if it is.
    """

    def __init__(self, backend: str, over: str | None) -> None:
        self.backend = backend
        self._over = over
        self._own_class = backend_settings_class(backend)
        self._prefix = self._own_class.prefix
        self._own = _prefixed(self._own_class)
        self._over_class = backend_settings_class(over) if over else BackendSettings
        self._of_over = _prefixed(self._over_class)
        self._known = frozenset(GENERAL | self._own.keys() | self._of_over.keys())

    def full_name(self, key: str, *, named: bool) -> str:
        """Put back the backend's prefix where an argument left it out.

        `env` names the backend, except beside a backend's name: there it is that backend's own, as in docker_env.
        """
        full = self._prefix + key
        return full if full in self._own and (named or key not in GENERAL) else key

    def may_be_meant(self, name: str) -> bool:
        """Whether a variable may be one of ours, and not another program's, such as the TERMINAL_EMULATOR of editors.

        A name under a prefix of ours, or very like a setting, is a slip, which is to be refused.
        """
        return name in self._known or self._is_under_our_prefix(name) or bool(closest(name, self._known, cutoff=_CLOSE))

    def _is_under_our_prefix(self, name: str) -> bool:
        prefixes = (self._prefix, self._over_class.prefix)
        return name.startswith(_LIMITS) or any(prefix and name.startswith(prefix) for prefix in prefixes)

    def default(self, name: str) -> object:
        """Return the default of a setting; None also for one of another backend."""
        if name in GENERAL:
            return getattr(EnvironmentSettings(), name)
        if name in self._of_over:
            return getattr(self._over_class(), self._of_over[name])
        return getattr(self._own_class(), self._own[name]) if name in self._own else None

    def refuse_secrets(self, file: Layer) -> None:
        """Refuse secrets in `config.yaml`, which others may read.

        Raises:
            SettingsError: There is one. It names the variable to set instead.
        """
        for own in (self._own_class, self._over_class):
            for found in fields(own):
                name = own.prefix + found.name
                if found.metadata.get("secret") and name in file and file[name].value is not None:
                    variable = VARIABLE_PREFIX + name.upper()
                    raise SettingsError(f"{file[name].where}: secrets are not read from a file; set {variable} instead")

    def without_foreign(self, layer: Layer) -> Layer:
        """Leave out what is set for other backends."""
        return {name: given for name, given in layer.items() if name in self._known or not self._is_foreign(name)}

    def _is_foreign(self, name: str) -> bool:
        prefixes = [_prefix(other) for other in BUILT_IN]
        if not name.startswith(tuple(prefixes)):
            prefixes = [_prefix(other) for other in backend_names()]  # which takes a look at all that is installed
        longest = max((prefix for prefix in (*prefixes, self._prefix) if name.startswith(prefix)), key=len, default="")
        return longest not in ("", self._prefix, self._over_class.prefix)

    def settings(self, layers: Iterable[Layer]) -> EnvironmentSettings:
        """Check every value of the layers, the later over the earlier, and build the settings.

        Raises:
            SettingsError: A name is unknown, or a value is not allowed; also when a later layer replaces it.
        """
        general: list[Layer] = []
        own: list[Layer] = []
        of_over: list[Layer] = []
        for layer in self._without_put_aside(layers):
            for name, given in layer.items():
                if name not in self._known:
                    raise self._unknown(name, given)
            general.append({name: given for name, given in layer.items() if name in GENERAL})
            own.append({self._own[name]: given for name, given in layer.items() if name in self._own})
            of_over.append({self._of_over[name]: given for name, given in layer.items() if name in self._of_over})
        return replace(
            validated(EnvironmentSettings, *general),
            env=self.backend,
            over=self._over,
            own=validated(self._own_class, *own),
            own_over=validated(self._over_class, *of_over) if self._over else None,
        )

    def _without_put_aside(self, layers: Iterable[Layer]) -> list[Layer]:
        """Leave out of each layer what contradicts a setting of a later one."""
        kept: list[Layer] = []
        for layer in layers:
            gone = {
                other
                for name, given in layer.items()
                if given.value is not None
                for other in self._own_class.puts_aside.get(name, ())
            }
            kept = [{name: given for name, given in lower.items() if name not in gone} for lower in kept]
            kept.append(layer)
        return kept

    def _unknown(self, name: str, given: Given) -> TerminalError:
        if name.removeprefix(self._prefix) == "network":
            return UnsupportedError(
                f"{given.where}: backend {self.backend!r} cannot hold what runs in it to a network; leave it unset, or "
                "use bubblewrap, docker, singularity, modal or daytona"
            )
        allowed = [*sorted(GENERAL), *self._own, *self._of_over]
        near = [*allowed, *_names_of_built_in()]
        # An argument may have been meant without the prefix, and rather so than as another backend's.
        hint = closest(self._prefix + name, self._own, cutoff=_CLOSE) or closest(name, near)
        return SettingsError(f"{given.where}: no such setting{hint}; allowed: {', '.join(allowed)}")


def _file_layer() -> Layer:
    layer = config_layer(SECTION)
    named = layer.pop("backend", None)
    if named is not None and named.value is not None:
        if "env" in layer:
            raise SettingsError(f"{named.where}: terminal.env is there too, and means the same; keep one")
        layer["env"] = named
    return layer


def _variable_layer() -> Layer:
    found = {
        variable.removeprefix(VARIABLE_PREFIX).lower(): Given(text or None, f"variable {variable}")
        for variable, text in os.environ.items()
        if variable.startswith(VARIABLE_PREFIX)
    }
    if "env" in found and found["env"].value is None:  # where commands run is never a matter of oversight
        raise SettingsError(f"{found['env'].where}: it should be the name of a backend: {', '.join(backend_names())}")
    return translated(SECTION, {SECTION: found})


def _argument_layer(names: _Names, overrides: Mapping[str, object], *, named: bool) -> Layer:
    layer: Layer = {}
    for key, value in overrides.items():
        name = names.full_name(key, named=named)
        if name in layer:
            raise SettingsError(f"argument {key}: {name} is given twice; keep one")
        if name == "env" and value not in (None, names.backend):
            raise SettingsError(f"argument env: the backend is already given as {names.backend!r}; keep one")
        layer[name] = Given(os.fspath(value) if isinstance(value, os.PathLike) else value, f"argument {key}")
    return layer


def _chosen(
    backend: str | None,
    overrides: Mapping[str, object],
    variables: Mapping[str, Given],
    file: Mapping[str, Given],
) -> tuple[str, str | None]:
    """Return the backend, and the one that it is had over, if it is."""
    env = _chosen_backend(backend, overrides, variables, file)
    configured = [given for given in (variables.get("over"), file.get("over")) if given]
    is_named = backend is not None or overrides.get("env") is not None
    return env, chosen_over(env, Given(overrides.get("over"), "argument over"), configured, is_named=is_named)


def _chosen_backend(
    backend: str | None,
    overrides: Mapping[str, object],
    variables: Mapping[str, Given],
    file: Mapping[str, Given],
) -> str:
    arguments = [Given(backend, "argument backend")]
    if backend is None:
        arguments.append(Given(overrides.get("env"), "argument env"))
    for given in (*arguments, variables.get("env"), file.get("env")):
        if given is not None and given.value is not None:
            if not isinstance(given.value, str) or not given.value:
                raise SettingsError(f"{given.where}: it should be the name of a backend: {', '.join(backend_names())}")
            check_backend_name(given.value, given.where)
            return given.value
    return EnvironmentSettings().env


def _names_of_built_in() -> list[str]:
    """Return the names of the settings of all backends of this package, one of which may have been meant."""
    classes = [backend_settings_class(backend) for backend in BUILT_IN]
    return [own.prefix + name for own in classes for name in setting_names(own)]


def _prefixed(own: type[BackendSettings]) -> dict[str, str]:
    return {own.prefix + name: name for name in setting_names(own)}


def _prefix(backend: str) -> str:
    return backend.lower().replace("-", "_") + "_"
