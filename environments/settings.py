"""The settings of an environment, and the sources they come from.

In rising order: the defaults, the section `terminal:` of `config.yaml` in `HERMES_HOME`, the variables
`TERMINAL_*`, the arguments of `create_environment`. A setting has one name everywhere: that of the field. Its
variable is the same name in capitals after `TERMINAL_`; lists and mappings are written there as JSON.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated

from environments.base import SettingsError
from environments.config import NOT_A_SETTING, Given, closest, config_layer, setting_names, validated
from environments.registry import BUILT_IN, backend_names, check_backend_name, is_third_party

if TYPE_CHECKING:
    from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt, SecretStr

VARIABLE_PREFIX = "TERMINAL_"
SECTION = "terminal"


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentSettings:
    """How to reach an environment, and what to allow it. Read-only, and can be pickled.

    Fields that may hold a secret are left out of the repr.
    """

    env: str = "local"
    """The backend: a name, or a class as `package.module:Class`. `config.yaml` may call it `backend`."""
    cwd: str | None = None
    """Directory in the target where the session starts; None is the backend's own choice."""
    timeout: PositiveFloat = 180.0
    """Seconds a command may run when it is not given a limit of its own."""
    lifetime_seconds: PositiveFloat = 300.0
    """Seconds an environment may stay unused before it is cleaned up."""
    persistent_shell: bool = True
    """Whether one shell runs all commands of the session. Otherwise each gets a new shell, which takes over working
    directory, exports, functions, aliases and options, and not plain variables, the umask or background jobs."""
    max_output_bytes: PositiveInt = 10_000_000
    """Bytes of output kept of one command; above it, the middle is left out and counted."""
    task_id: str = "default"
    """What the environment is for: it is written on the target, and files that outlive `cleanup()` are found by it."""
    env_passthrough: tuple[str, ...] = ()
    """Names of variables of this process that scripts see although their names would hold them back."""

    container_cpu: PositiveFloat | None = None
    """CPU limit in cores; None sets none."""
    container_memory: PositiveInt | None = None
    """Memory limit in MB; None sets none."""
    container_disk: PositiveInt | None = None
    """Disk limit in MB; None sets none."""
    container_pids: PositiveInt | None = None
    """Limit of processes and threads; None is the backend's own choice, which is 256 in Docker."""
    container_persistent: bool = False
    """Whether the container's files outlive `cleanup()` and are there again next time."""

    docker_image: str | None = None
    """Image to run; None is the backend's own choice."""
    docker_volumes: tuple[str, ...] = ()
    """Mounts, each written `host_path:container_path` or `host_path:container_path:ro`."""
    docker_env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Variables to set in the container."""
    docker_forward_env: tuple[str, ...] = ()
    """Names of variables of this process to set in the container to the value they have here."""
    docker_extra_args: tuple[str, ...] = field(default=(), repr=False)
    """Further arguments of `docker run`."""
    docker_mount_cwd_to_workspace: bool = False
    """Whether this process's working directory is mounted at `/workspace`."""
    docker_run_as_host_user: bool = False
    """Whether commands run under this process's user and group id."""
    docker_network: bool = True
    """Whether the container has a network."""
    docker_user: str | None = None
    """User of the container, or `uid:gid`, that commands run under; None is the image's own."""
    docker_gpus: str | None = None
    """GPUs to give to the container: `all`, a number, or `device=ID,ID`."""

    ssh_host: str | None = None
    """Host name or address, or a `Host` of the SSH client's configuration."""
    ssh_user: str | None = None
    """User to log in as; None is the SSH client's own choice."""
    ssh_port: Annotated[int, Field(ge=1, le=65535)] | None = None
    """Port of the SSH server; None is the SSH client's own choice."""
    ssh_key: str | None = None
    """Path of the private key here; None is the SSH client's own choice."""
    ssh_config: str | None = None
    """The SSH client's configuration file here; None is `~/.ssh/config` and then `/etc/ssh/ssh_config`."""
    ssh_password: SecretStr | None = None
    """Password to log in with. Refused in `config.yaml`."""
    ssh_passphrase: SecretStr | None = None
    """Passphrase of the private key. Refused in `config.yaml`."""

    singularity_image: str | None = None
    """Image to run: a path here or a URI; None is the backend's own choice."""
    singularity_binds: tuple[str, ...] = ()
    """Mounts, each written `host_path:container_path` or `host_path:container_path:ro`."""
    singularity_network: bool = True
    """Whether the container shares this machine's network; without, it has none."""
    singularity_gpu: bool = False
    """Whether the container has this machine's NVIDIA GPUs."""
    singularity_read_only: bool = False
    """Whether nothing in the container can be written but `/tmp` and mounts."""
    modal_image: str | None = None
    """Image to run, as a registry calls it, or the id of one that Modal has; None is the backend's own choice."""
    modal_dockerfile_commands: tuple[str, ...] = ()
    """Lines of a Dockerfile, such as `RUN apt-get install -y git`, that are built on the image."""
    modal_app: str = "hermes-environments"
    """Modal app that sandboxes belong to; it is created if missing."""
    modal_sandbox_timeout: Annotated[int, Field(ge=1, le=86_400)] = 86_400
    """Seconds a sandbox may live, at most a day. It ends earlier with the environment."""
    modal_idle_timeout: PositiveInt | None = None
    """Seconds without a process in it after which Modal ends a sandbox; None sets none."""
    modal_gpu: str | None = None
    """GPU to reserve, such as `T4` or `A100:2`."""
    modal_region: tuple[str, ...] = ()
    """Regions the sandbox may run in; empty is any."""
    modal_volumes: tuple[str, ...] = ()
    """Modal volumes to mount, each written `name:/path` or `name:/path:ro`; a missing one is created."""
    modal_env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Variables to set in the sandbox."""
    modal_forward_env: tuple[str, ...] = ()
    """Names of variables of this process to set in the sandbox, as a secret, to the value they have here."""
    modal_network: bool = True
    """Whether the sandbox has a network."""
    daytona_image: str | None = None
    """Image to run, as a registry calls it; None is the backend's own choice."""
    daytona_snapshot: str | None = None
    """Snapshot to run, which Daytona has ready, in place of an image; its limits are its own."""
    daytona_env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Variables to set in the sandbox."""
    daytona_forward_env: tuple[str, ...] = ()
    """Names of variables of this process to set in the sandbox to the value they have here."""
    daytona_auto_archive: NonNegativeInt | None = None
    """Minutes after which Daytona archives a sandbox that is kept and not in use; None is its choice, 0 its most."""
    daytona_auto_delete: PositiveInt | None = None
    """Minutes after which Daytona deletes a sandbox that is kept and not in use; None never does."""
    daytona_network: bool = True
    """Whether the sandbox has a network."""

    options: Mapping[str, object] = field(default_factory=dict, repr=False, metadata=NOT_A_SETTING)
    """What was set as `<backend>_*` for a backend that is not of this package, without that prefix."""


NAMES = frozenset(setting_names(EnvironmentSettings))
DEFAULTS = EnvironmentSettings()
SECRETS = ("ssh_password", "ssh_passphrase")
_CLOSE = 0.85
"""As difflib measures likeness: TERMINAL_TIMOUT is a slip (0.92), TERMINAL_EMULATOR another program's own."""


def load_settings(backend: str | None = None, **overrides: object) -> EnvironmentSettings:
    """Bring the settings together from all sources.

    Args:
        backend: The backend's name, over all sources; None leaves it to them.
        overrides: Settings over all sources, by field name; None means not set. The backend's own prefix may
            be left out. For a backend that is not of this package, names that are no field go to `options`.

    Raises:
        SettingsError: A name is unknown, or a value is not allowed. It names source, key and remedy.
    """
    file, variables = _file_layer(), _variable_layer()
    env = _chosen_backend(backend, overrides, variables, file)
    layers = [
        file,
        _without_foreign(variables, env),
        _argument_layer(env, overrides, named=backend is not None),
    ]
    options: dict[str, object] = {}
    for layer in layers:
        options.update(_take_options(layer, env))
    settings = validated(EnvironmentSettings, *layers)
    return replace(settings, env=env, options=options)


def _file_layer() -> dict[str, Given]:
    layer = config_layer(SECTION)
    if "backend" in layer:
        named = layer.pop("backend")
        if "env" in layer:
            raise SettingsError(f"{named.where}: terminal.env is there too, and means the same; keep one")
        layer["env"] = named
    for name in SECRETS:
        if name in layer:
            variable = VARIABLE_PREFIX + name.upper()
            raise SettingsError(f"{layer[name].where}: secrets are not read from a file; set {variable} instead")
    return layer


def _variable_layer() -> dict[str, Given]:
    return {
        variable.removeprefix(VARIABLE_PREFIX).lower(): _variable(variable, text)
        for variable, text in os.environ.items()
        if variable.startswith(VARIABLE_PREFIX)
    }


def _variable(variable: str, text: str) -> Given:
    where = f"variable {variable}"
    name = variable.removeprefix(VARIABLE_PREFIX).lower()
    default = getattr(DEFAULTS, name) if name in NAMES else None
    if not isinstance(default, tuple | Mapping):
        return Given(text, where)
    import json

    try:
        return Given(json.loads(text), where)
    except ValueError:
        example = '["a", "b"]' if isinstance(default, tuple) else '{"NAME": "value"}'
        raise SettingsError(f"{where}: it should be JSON, such as {example}") from None


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
    return DEFAULTS.env


def _argument_layer(backend: str, overrides: Mapping[str, object], *, named: bool) -> dict[str, Given]:
    layer: dict[str, Given] = {}
    for key, value in overrides.items():
        name = _full_name(key, backend, named=named)
        if name in layer:
            raise SettingsError(f"argument {key}: {name} is given twice; keep one")
        if name == "env" and value not in (None, backend):
            raise SettingsError(f"argument env: the backend is already given as {backend!r}; keep one")
        layer[name] = Given(os.fspath(value) if isinstance(value, os.PathLike) else value, f"argument {key}")
    return layer


def _full_name(key: str, backend: str, *, named: bool) -> str:
    """Put back the backend's prefix where an argument left it out."""
    full = _prefix(backend) + key
    if key in NAMES:
        # `env` names the backend; beside a backend's name it is that backend's own: docker_env.
        return full if full in NAMES and named else key
    if full in NAMES or (is_third_party(backend) and not _is_slip(key) and not key.startswith(_prefix(backend))):
        return full
    return key


def _without_foreign(variables: Mapping[str, Given], backend: str) -> dict[str, Given]:
    """Leave out the variables of other programs, such as the TERMINAL_EMULATOR of some editors.

    A name under a prefix of ours, or very like a setting, stays: it is a slip, and `validated` refuses it.
    """
    ours = tuple(_prefix(group) for group in (*BUILT_IN, "container", backend))
    return {
        name: value for name, value in variables.items() if name in NAMES or name.startswith(ours) or _is_slip(name)
    }


def _take_options(layer: dict[str, Given], backend: str) -> dict[str, object]:
    """Move the settings of backends installed apart out of a layer, and return those of the chosen one."""
    options: dict[str, object] = {}
    for name in [name for name in layer if name not in NAMES]:
        if is_third_party(backend) and name.startswith(_prefix(backend)):
            value = layer.pop(name).value
            if value is not None:
                options[name.removeprefix(_prefix(backend))] = value
        elif any(name.startswith(_prefix(other)) for other in backend_names() if is_third_party(other)):
            del layer[name]
    return options


def _prefix(backend: str) -> str:
    return backend.lower().replace("-", "_") + "_"


def _is_slip(name: str) -> bool:
    return bool(closest(name, NAMES, cutoff=_CLOSE))
