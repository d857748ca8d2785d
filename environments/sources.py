"""Where settings come from.

In rising order: the defaults, the section `terminal:` of `config.yaml` in `HERMES_HOME`, the variables
`TERMINAL_*`, the arguments of `create_environment`. The variable of a setting is its name in capitals after
`TERMINAL_`; lists and mappings are written there as JSON.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace

from environments.config import config_layer
from environments.errors import SettingsError
from environments.registry import BUILT_IN, backend_names, backend_settings_class, check_backend_name
from environments.settings import EnvironmentSettings
from environments.validation import Given, closest, setting_names, validated

VARIABLE_PREFIX = "TERMINAL_"
SECTION = "terminal"
GENERAL = frozenset(setting_names(EnvironmentSettings))
_LIMITS = "container_"
_CLOSE = 0.85
"""As difflib measures likeness: TERMINAL_TIMOUT is a slip (0.92), TERMINAL_EMULATOR another program's own."""

Layer = dict[str, Given]


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
    env = _chosen_backend(backend, overrides, variables, file)
    names = _Names(env)
    names.refuse_secrets(file)
    layers = [
        file,
        {name: names.decoded(name, given) for name, given in variables.items() if names.may_be_meant(name)},
        _argument_layer(names, overrides, named=backend is not None),
    ]
    return names.settings(names.without_foreign(layer) for layer in layers)


class _Names:
    """The names that may be set for one backend: the general ones, and its own behind its prefix."""

    def __init__(self, backend: str) -> None:
        self.backend = backend
        self._own_class = backend_settings_class(backend)
        self._prefix = self._own_class.prefix
        self._own = {self._prefix + name: name for name in setting_names(self._own_class)}
        self._known = frozenset(GENERAL | self._own.keys())

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
        return name.startswith(_LIMITS) or bool(self._prefix and name.startswith(self._prefix))

    def decoded(self, name: str, given: Given) -> Given:
        """Read the JSON of a variable that is a list or a mapping.

        Raises:
            SettingsError: It is something else.
        """
        default = self._default(name)
        if not isinstance(default, tuple | Mapping):
            return given
        import json

        try:
            return Given(json.loads(str(given.value)), given.where)
        except (ValueError, RecursionError):
            example = '["a", "b"]' if isinstance(default, tuple) else '{"NAME": "value"}'
            raise SettingsError(f"{given.where}: it should be JSON, such as {example}") from None

    def _default(self, name: str) -> object:
        if name in GENERAL:
            return getattr(EnvironmentSettings(), name)
        return getattr(self._own_class(), self._own[name]) if name in self._own else None

    def refuse_secrets(self, file: Layer) -> None:
        """Refuse secrets in `config.yaml`, which others may read.

        Raises:
            SettingsError: There is one. It names the variable to set instead.
        """
        for found in fields(self._own_class):
            name = self._prefix + found.name
            if found.metadata.get("secret") and name in file:
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
        return longest not in ("", self._prefix)

    def settings(self, layers: Iterable[Layer]) -> EnvironmentSettings:
        """Check every value of the layers, the later over the earlier, and build the settings.

        Raises:
            SettingsError: A name is unknown, or a value is not allowed; also when a later layer replaces it.
        """
        general: list[Layer] = []
        own: list[Layer] = []
        for layer in layers:
            for name, given in layer.items():
                if name not in self._known:
                    raise self._unknown(name, given)
            general.append({name: given for name, given in layer.items() if name in GENERAL})
            own.append({self._own[name]: given for name, given in layer.items() if name in self._own})
        return replace(validated(EnvironmentSettings, *general), env=self.backend, own=validated(self._own_class, *own))

    def _unknown(self, name: str, given: Given) -> SettingsError:
        allowed = [*sorted(GENERAL), *self._own]
        near = [*allowed, *_names_of_built_in()]
        # An argument may have been meant without the prefix, and rather so than as another backend's.
        hint = closest(self._prefix + name, self._own, cutoff=_CLOSE) or closest(name, near)
        return SettingsError(f"{given.where}: no such setting{hint}; allowed: {', '.join(allowed)}")


def _file_layer() -> Layer:
    layer = config_layer(SECTION)
    if "backend" in layer:
        named = layer.pop("backend")
        if "env" in layer:
            raise SettingsError(f"{named.where}: terminal.env is there too, and means the same; keep one")
        layer["env"] = named
    return layer


def _variable_layer() -> Layer:
    return {
        variable.removeprefix(VARIABLE_PREFIX).lower(): Given(text, f"variable {variable}")
        for variable, text in os.environ.items()
        if variable.startswith(VARIABLE_PREFIX)
    }


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


def _prefix(backend: str) -> str:
    return backend.lower().replace("-", "_") + "_"
