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
    """Name of the backend, or a class as `package.module:Class`. In `config.yaml` also `backend`."""
    over: str | None = None
    """Backend that reaches the engine's machine: `ssh`, for Docker and Singularity. Its settings, such as `ssh_host`,
    then hold too."""
    cwd: str | None = None
    """Directory in the target where sessions start; the backend's choice if not set."""
    timeout: PositiveFloat = 180.0
    """Seconds that a command may run, unless the call gives a limit."""
    lifetime_seconds: PositiveFloat = 300.0
    """Seconds that an environment of `environments.tasks` may stay unused before its cleanup."""
    persistent_shell: bool = True
    """True: one shell runs all commands of a session. False: each command gets a new shell."""
    max_output_bytes: PositiveInt = 10_000_000
    """Bytes of a command's output that are kept; the middle of a longer output is cut and counted."""
    task_id: str = "default"
    """Name of the task; labels the target, and finds kept files again."""
    env_passthrough: tuple[str, ...] = ()
    """Names of this process's variables that commands and scripts receive. A session's own changes go before them."""
    scrub_env: bool = False
    """True: commands receive only harmless variables, those passed through, and those of `env`. Scripts never receive
    more."""
    login_shell: bool = False
    """True: sessions source `/etc/profile` and the user's profile, as for `module`, conda or nvm."""
    init_files: tuple[Annotated[str, Field(pattern="^-?(/|~/)")], ...] = ()
    """Files in the target that sessions source next, such as `["~/.bashrc"]`. A leading `-` allows a missing or failing
    file."""
    init_timeout: PositiveFloat = 30.0
    """Seconds that each of these files may take."""

    redact_secrets: bool = True
    """True: a model sees `[REDACTED:NAME]` in place of known secrets and of texts with the form of a key."""
    strip_ansi: bool = True
    """True: terminal controls, such as colours, are removed from output for a model."""
    record: str | None = None
    """File on this machine that receives a record of all actions, one JSON object a line."""
    telemetry_text: bool = False
    """True: OpenTelemetry spans hold the text of commands and scripts, without known secrets."""
    write_denylist: tuple[Annotated[str, Field(pattern="^(/|~/|~$)")], ...] = WRITE_DENYLIST
    """Files and directories in the target that `write_file` and `patch` never change."""
    write_safe_root: Annotated[str, Field(pattern="^(/|~/|~$)")] | None = None
    """Only directory below which `write_file` and `patch` write."""

    container_cpu: NonNegativeFloat | None = None
    """CPU limit in cores; fractions are allowed."""
    container_memory: NonNegativeInt | None = None
    """Memory limit in MB; Docker's default is 4096."""
    container_disk: NonNegativeInt | None = None
    """Limit in MB for files written in the container."""
    container_pids: NonNegativeInt | None = None
    """Limit of processes and threads; Docker's default is 256."""
    container_persistent: bool = False
    """True: files outlive `cleanup()` and return for the same `task_id`."""

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
