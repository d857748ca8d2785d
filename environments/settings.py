"""The settings: those of all backends, and the base of the settings of one backend.

A setting has one name, that of its field. The prefix of its backend may stand before it, and does in its variable. The
values come from `sources`.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from environments.errors import SettingsError, UnsupportedError

if TYPE_CHECKING:
    from pathlib import Path

    from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

CONFIG_FILE = "config.yaml"


def config_path() -> str:
    """Return the path of `config.yaml`: as text, as most have no such file and need no `pathlib`, which takes long."""
    home = os.environ.get("HERMES_HOME") or "~/.hermes"
    return os.path.join(os.path.expanduser(home), CONFIG_FILE)  # noqa: PTH111, PTH118


def hermes_home() -> Path:
    """Return the directory of the user's settings: `HERMES_HOME`, or `~/.hermes` when unset or empty."""
    from pathlib import Path

    return Path(config_path()).parent


_SHELLS = (
    *("~/.bashrc", "~/.bash_profile", "~/.bash_login", "~/.bash_logout", "~/.bash_aliases", "~/.profile"),
    *("~/.zshrc", "~/.zshenv", "~/.zprofile", "~/.zlogin", "~/.zlogout", "~/.config/fish"),
)
"""Files that the next shell of the target's user runs."""
_SESSIONS = ("~/.config/autostart", "~/.config/systemd", "~/Library/LaunchAgents")
"""Directories whose entries the user's next login runs."""
_CREDENTIALS = (
    *("~/.ssh", "~/.gnupg", "~/.aws", "~/.azure", "~/.config/gcloud", "~/.kube", "~/.docker"),
    *("~/.netrc", "~/.pgpass", "~/.git-credentials", "~/.gitconfig", "~/.config/git", "~/.npmrc", "~/.pypirc"),
)
"""Keys, and settings that choose keys and the programs that provide them."""
_SYSTEM = (
    *("/etc/passwd", "/etc/shadow", "/etc/group", "/etc/gshadow", "/etc/sudoers", "/etc/sudoers.d", "/etc/doas.conf"),
    *("/etc/pam.d", "/etc/ssh", "/etc/profile", "/etc/profile.d", "/etc/bash.bashrc", "/etc/environment"),
    *("/etc/crontab", "/etc/cron.d", "/etc/cron.hourly", "/etc/cron.daily", "/etc/cron.weekly", "/etc/cron.monthly"),
    *("/var/spool/cron", "/etc/systemd", "/etc/init.d", "/etc/ld.so.preload", "/etc/ld.so.conf", "/etc/ld.so.conf.d"),
    "/boot",
)
"""Accounts and rights on the target, and programs that it runs by itself."""

WRITE_DENYLIST = (*_CREDENTIALS, *_SHELLS, *_SESSIONS, "~/.hermes/config.yaml", *_SYSTEM)
"""Files, and directories with all below them, of the target: `~` is its user's home."""

RESOURCE_SETTINGS = ("container_cpu", "container_memory", "container_disk", "container_pids")
"""Limits that a backend holds, or refuses. None is its own choice, and 0 is no limit, which all of them have."""
NOT_A_SETTING: Mapping[str, bool] = {"computed": True}
"""`field(metadata=...)` of a field that is filled in by code and that no source may set."""
NOT_IN_FILE: Mapping[str, bool] = {"secret": True}
"""`field(metadata=...)` of a secret, which is refused in `config.yaml`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendSettings:
    """The settings of one backend alone. A backend derives its own class, and names it as its `settings_class`.

    That is a frozen dataclass of keyword-only fields, each with a default, a docstring and a type that pydantic can
    check. With the prefix `docker_`, a field `image` is `image` or `docker_image` in `config.yaml` and as an argument,
    `TERMINAL_DOCKER_IMAGE` as a variable, and `settings.docker.image` to read. Hide from the repr what may be secret.
    """

    prefix: ClassVar[str] = ""
    """The beginning of the full names of its fields, such as `docker_`."""
    enforces: ClassVar[frozenset[str]] = frozenset()
    """The limits of `RESOURCE_SETTINGS` that the backend enforces. The others are refused."""
    carries: ClassVar[bool] = False
    """Whether the engine of another backend can be on a target of this one: whether `over` can name it."""
    goes_over: ClassVar[bool] = False
    """Whether the backend can have its engine on another machine, see `over`."""
    puts_aside: ClassVar[Mapping[str, Collection[str]]] = {}
    """By the full name of a setting, such as `docker_container`, the full names of the settings that contradict it. A
    value of theirs from a lower source is dropped: an argument names a container, and `config.yaml` an image."""

    @classmethod
    def of(cls, settings: EnvironmentSettings) -> Self:
        """Return the settings of this class that `settings` hold, or the defaults if none were loaded.

        Raises:
            SettingsError: They are another backend's.
        """
        if isinstance(settings.own, cls):
            return settings.own
        if type(settings.own) is BackendSettings:
            return cls()
        raise SettingsError(f"the settings are those of backend {settings.env!r}, and hold no {cls.prefix}*")

    def check(self, settings: EnvironmentSettings) -> None:
        """Refuse limits that would have no effect, and then what `refuse` does.

        Args:
            settings: All settings, these among them.

        Raises:
            SettingsError: A value cannot be understood, or two of them contradict each other.
            UnsupportedError: The backend cannot do what is asked for. It names the setting.
        """
        for name in RESOURCE_SETTINGS:
            if getattr(settings, name) and name not in self.enforces:
                raise UnsupportedError(
                    f"backend {settings.env!r} cannot enforce {name}; leave {name} (TERMINAL_{name.upper()}) unset, "
                    "set it to 0, or use a backend that can"
                )
        self.refuse(settings)

    def unheld(self, settings: EnvironmentSettings) -> frozenset[str]:
        """Return the names of those of `RESOURCE_SETTINGS` that the backend never holds, if set as they are here.

        Args:
            settings: All settings, these among them.
        """
        return frozenset(RESOURCE_SETTINGS) - self.enforces

    def at(self, url: str) -> Self:
        """Return settings that lead to the host of a URL such as `ssh://user@host:22`, and else are these.

        Raises:
            SettingsError: The URL is none of such a host.
        """
        raise SettingsError(f"{url!r} leads to no machine that has an engine")

    def leads_to(self) -> tuple[str, Mapping[str, object]] | None:
        """Return another backend that these settings ask for, and its own settings by name; None for this one."""
        return None

    @classmethod
    def check_credentials(cls) -> None:
        """Look for a service's credentials in variables and files, without importing its client library.

        A backend without such a service, or with nothing to be seen this way, returns.

        Raises:
            EnvironmentStartError: This machine has none.
        """

    def target_variables(self) -> Mapping[str, str]:
        """Return the variables that these settings set for everything in the target; none, if not overridden."""
        return {}

    def refuse(self, settings: EnvironmentSettings) -> None:
        """Refuse what the backend cannot do or understand, before anything is started; nothing, if not overridden.

        Arguments and errors are those of `check`.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentSettings:
    """The address and the limits of an environment. Read-only, and can be pickled.

    Fields that may hold a secret are left out of the repr.
    """

    env: str = "local"
    """The backend: a name, or a class as `package.module:Class`. `config.yaml` may call it `backend`."""
    over: str | None = None
    """The backend that leads to the machine which the engine is on, where that is not this one: `ssh`, for Docker and
    Singularity. Its own settings, such as `ssh_host`, then hold too."""
    cwd: str | None = None
    """Directory in the target where the session starts; the backend's own choice if not set. A missing one is made in a
    new Docker container, and else an error."""
    timeout: PositiveFloat = 180.0
    """Seconds a command may run that is given no limit of its own."""
    lifetime_seconds: PositiveFloat = 300.0
    """Seconds an environment of `environments.tasks` may stay unused before it is cleaned up."""
    persistent_shell: bool = True
    """Whether one shell runs all commands of the session. Otherwise each gets a new shell, which takes over working
    directory, exports, functions, aliases and options, and not plain variables, the umask or background jobs."""
    max_output_bytes: PositiveInt = 10_000_000
    """Bytes of output kept of one command; above it, the middle is left out and counted."""
    task_id: str = "default"
    """The name of the task. It is written on the target, and files that outlive `cleanup()` are found by it."""
    env_passthrough: tuple[str, ...] = ()
    """Names of variables of this process that commands and scripts see, on every backend, with the values they have
    here. A session that changes or unsets one keeps its own. On this machine keys of services and this package's own
    secrets are seen only if they are named here."""
    scrub_env: bool = False
    """Whether commands see, of all other variables of the target (on this machine: of this process), only those that
    are known to be harmless, and those of a setting `env`. Scripts always do."""
    login_shell: bool = False
    """Whether a session begins with what a login shell of the target's user has: `/etc/profile`, and then
    `~/.bash_profile`, `~/.bash_login` or `~/.profile` are sourced, as for `module`, `conda` or `nvm`."""
    init_files: tuple[Annotated[str, Field(pattern="^-?(/|~/)")], ...] = ()
    """Files of the target that are sourced behind that, in this order, such as `["~/.bashrc"]`; `~` is the home of the
    target's user. What they export, commands beside the session have too. One that is missing is an error, unless `-`
    stands before it, as in `-~/.bashrc`."""
    init_timeout: PositiveFloat = 30.0
    """Seconds that each of these files may take."""

    redact_secrets: bool = True
    """Whether `[REDACTED:NAME]` stands for the values of secrets in what a model gets: of variables that are passed
    through or whose name says that they are secret (TOKEN, KEY and the like), of settings, and for what has the form of
    a token, a private key or a password in a URL."""
    strip_ansi: bool = True
    """Whether terminal controls, such as colours, are taken out of the output that a model gets."""
    record: str | None = None
    """The file of this machine that a record of all that is done in the environment is added to, one JSON object a
    line; `~` is the home here. See docs/records.md."""
    telemetry_text: bool = False
    """Whether the spans of OpenTelemetry hold the text of commands and scripts, without the values of secrets."""
    write_denylist: tuple[Annotated[str, Field(pattern="^(/|~/|~$)")], ...] = WRITE_DENYLIST
    """Files and directories of the target that `write_file` and `patch` leave as they are, with all below them, by
    whatever link or path they are reached; `~` is the home of the target's user. `config.yaml` in `HERMES_HOME` is
    always one of them. Commands are not held to it."""
    write_safe_root: Annotated[str, Field(pattern="^(/|~/|~$)")] | None = None
    """The directory of the target below which alone `write_file` and `patch` write. Commands are not held to it."""

    container_cpu: NonNegativeFloat | None = None
    """CPU limit in cores; a fraction is allowed, and 0 is no limit."""
    container_memory: NonNegativeInt | None = None
    """Memory limit in MB; 0 is no limit. In Docker 4096 if not set."""
    container_disk: NonNegativeInt | None = None
    """Limit in MB of what is written in the container; 0 is no limit."""
    container_pids: NonNegativeInt | None = None
    """Limit of processes and threads; 0 is no limit. In Docker 256 if not set."""
    container_persistent: bool = False
    """Whether the container's files outlive `cleanup()` and are there again for the same task."""

    default_limits: frozenset[str] = field(default=frozenset(), metadata=NOT_A_SETTING)
    """Names of the limits that were not chosen: they are what the older system's `config.yaml` has by default. A target
    that cannot hold one goes without, see `environments.sources`."""

    own: BackendSettings = field(default_factory=BackendSettings, metadata=NOT_A_SETTING)
    """The settings of the backend alone. They are also there by its prefix: `settings.docker.image`."""
    own_over: BackendSettings | None = field(default=None, metadata=NOT_A_SETTING)
    """The settings of the backend that `over` names; None without one."""

    # Only a wing knows the type of its own settings; `DockerSettings.of(settings)` is the same with its type.
    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        """Return the settings of the backend, by its prefix without the underscore."""
        if name.startswith("_") or name in ("own", "own_over"):  # what copying and pickling look for in an empty object
            raise AttributeError(name)
        for own in (self.own, self.own_over):
            if own and name == own.prefix.removesuffix("_"):
                return own
        raise AttributeError(
            f"there is no setting {name!r}; these are settings of backend {self.env!r}, and load_settings returns "
            "those of another"
        )


def of_new_targets(prefix: str, names: Iterable[str]) -> frozenset[str]:
    """Return the full names of all settings that say what a new target is to be.

    Args:
        prefix: That of the backend.
        names: Names of its own among them, without the prefix.
    """
    return frozenset({*(prefix + name for name in names), *RESOURCE_SETTINGS, "container_persistent"})


def refuse_beside(settings: EnvironmentSettings, joined: str, names: Iterable[str]) -> None:
    """Refuse settings that say what a new target is to be, where there is one that runs already.

    Args:
        settings: All settings.
        joined: The setting that names the target.
        names: Names of the backend's own settings that are for new targets alone, without its prefix.

    Raises:
        UnsupportedError: A limit is set.
        SettingsError: Another one of them is set.
    """
    limits = [name for name in RESOURCE_SETTINGS if getattr(settings, name)]
    if limits:
        raise UnsupportedError(
            f"backend {settings.env!r} cannot enforce {', '.join(limits)} in a target that runs already, whose limits "
            f"are its own; unset {'it' if len(limits) == 1 else 'them'}, or {joined}"
        )
    own = settings.own
    usual = type(own)()
    given = [name for name in names if getattr(own, name) != getattr(usual, name)]
    given += ["container_persistent"] if settings.container_persistent else []
    if given:
        are, them = ("is", "it") if len(given) == 1 else ("are", "them")
        raise SettingsError(
            f"backend {settings.env!r}: {joined} names a target that runs already, and {', '.join(given)} {are} for "
            f"a new one; unset {them}, or "
            f"{joined}"
        )
