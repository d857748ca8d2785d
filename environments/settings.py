"""Settings of all environments, and the base class of a backend's own settings.

A setting's name is its field's name. The backend's prefix is optional before a name, and required in a variable's name.
Module `sources` loads the values.
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
    """Return the path of `config.yaml` as text: importing `pathlib` is slow, and most users have no such file."""
    home = os.environ.get("HERMES_HOME") or "~/.hermes"
    return os.path.join(os.path.expanduser(home), CONFIG_FILE)  # noqa: PTH111, PTH118


def hermes_home() -> Path:
    """Return the directory of the user's settings: `HERMES_HOME`, or `~/.hermes` if unset or empty."""
    from pathlib import Path

    return Path(config_path()).parent


_SHELLS = (
    *("~/.bashrc", "~/.bash_profile", "~/.bash_login", "~/.bash_logout", "~/.bash_aliases", "~/.profile"),
    *("~/.zshrc", "~/.zshenv", "~/.zprofile", "~/.zlogin", "~/.zlogout", "~/.config/fish"),
)
"""Files run by the next shell of the target's user."""
_SESSIONS = ("~/.config/autostart", "~/.config/systemd", "~/Library/LaunchAgents")
"""Directories whose entries the user's next login runs."""
_CREDENTIALS = (
    *("~/.ssh", "~/.gnupg", "~/.aws", "~/.azure", "~/.config/gcloud", "~/.kube", "~/.docker"),
    *("~/.netrc", "~/.pgpass", "~/.git-credentials", "~/.gitconfig", "~/.config/git", "~/.npmrc", "~/.pypirc"),
)
"""Keys, and settings that select keys and their providers."""
_SYSTEM = (
    *("/etc/passwd", "/etc/shadow", "/etc/group", "/etc/gshadow", "/etc/sudoers", "/etc/sudoers.d", "/etc/doas.conf"),
    *("/etc/pam.d", "/etc/ssh", "/etc/profile", "/etc/profile.d", "/etc/bash.bashrc", "/etc/environment"),
    *("/etc/crontab", "/etc/cron.d", "/etc/cron.hourly", "/etc/cron.daily", "/etc/cron.weekly", "/etc/cron.monthly"),
    *("/var/spool/cron", "/etc/systemd", "/etc/init.d", "/etc/ld.so.preload", "/etc/ld.so.conf", "/etc/ld.so.conf.d"),
    "/boot",
)
"""Accounts and permissions on the target, and programs run automatically."""

WRITE_DENYLIST = (*_CREDENTIALS, *_SHELLS, *_SESSIONS, "~/.hermes/config.yaml", *_SYSTEM)
"""Files and directory trees of the target; `~` is the home of the target's user."""

RESOURCE_SETTINGS = ("container_cpu", "container_memory", "container_disk", "container_pids")
"""Resource limits, enforced or refused by a backend. None is the backend's default; 0, accepted by all backends, is
no limit."""
NOT_A_SETTING: Mapping[str, bool] = {"computed": True}
"""`field(metadata=...)` of a field filled in by code, closed to all sources."""
NOT_IN_FILE: Mapping[str, bool] = {"secret": True}
"""`field(metadata=...)` of a secret, refused in `config.yaml`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendSettings:
    """Base class of a backend's own settings. A backend derives a class and sets it as its `settings_class`.

    The class is a frozen dataclass of keyword-only fields, each with a default, a docstring and a type for pydantic.
    With the prefix `docker_`, a field `image` is `image` or `docker_image` in `config.yaml` and as an argument,
    `TERMINAL_DOCKER_IMAGE` as a variable, and `settings.docker.image` in code. Exclude possible secrets from the repr.
    """

    prefix: ClassVar[str] = ""
    """Prefix of the full names of the fields, such as `docker_`."""
    enforces: ClassVar[frozenset[str]] = frozenset()
    """Limits of `RESOURCE_SETTINGS` that the backend enforces. Others are refused."""
    carries: ClassVar[bool] = False
    """True if another backend's engine can run on a target of this backend, see `over`."""
    goes_over: ClassVar[bool] = False
    """True if the backend's engine can run on another machine, see `over`."""
    puts_aside: ClassVar[Mapping[str, Collection[str]]] = {}
    """Conflicting settings, by full name, such as for `docker_container`. A value of theirs from a lower source is
    dropped: for example, an argument names a container, and `config.yaml` an image."""

    @classmethod
    def of(cls, settings: EnvironmentSettings) -> Self:
        """Return the settings of this class in `settings`, or the defaults if none were loaded.

        Raises:
            SettingsError: The settings belong to another backend.
        """
        if isinstance(settings.own, cls):
            return settings.own
        if type(settings.own) is BackendSettings:
            return cls()
        raise SettingsError(f"the settings are those of backend {settings.env!r}, and hold no {cls.prefix}*")

    def check(self, settings: EnvironmentSettings) -> None:
        """Refuse limits without effect, then call `refuse`.

        Args:
            settings: All settings, including these.

        Raises:
            SettingsError: A value is malformed, or two values contradict each other.
            UnsupportedError: The backend does not support a setting. The message names the setting.
        """
        for name in RESOURCE_SETTINGS:
            if getattr(settings, name) and name not in self.enforces:
                raise UnsupportedError(
                    f"backend {settings.env!r} cannot enforce {name}; leave {name} (TERMINAL_{name.upper()}) unset, "
                    "set it to 0, or use a backend that can"
                )
        self.refuse(settings)

    def unheld(self, settings: EnvironmentSettings) -> frozenset[str]:
        """Return the names of `RESOURCE_SETTINGS` that the backend never enforces with these settings.

        Args:
            settings: All settings, including these.
        """
        return frozenset(RESOURCE_SETTINGS) - self.enforces

    def at(self, url: str) -> Self:
        """Return a copy that leads to the host of a URL such as `ssh://user@host:22`.

        Raises:
            SettingsError: The URL does not lead to such a host.
        """
        raise SettingsError(f"{url!r} leads to no machine that has an engine")

    def leads_to(self) -> tuple[str, Mapping[str, object]] | None:
        """Return another backend requested by these settings, and its settings by name; None for this backend."""
        return None

    @classmethod
    def check_credentials(cls) -> None:
        """Look for a service's credentials in variables and files, without importing its client library.

        Returns without error for a backend without a service, or with credentials in other places.

        Raises:
            EnvironmentStartError: This machine has no credentials.
        """

    def target_variables(self) -> Mapping[str, str]:
        """Return the variables set by these settings for all processes of the target; empty unless overridden."""
        return {}

    def refuse(self, settings: EnvironmentSettings) -> None:
        """Refuse unsupported or malformed settings before any start. Does nothing unless overridden.

        Arguments and errors: see `check`.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentSettings:
    """The address and the limits of an environment. Read-only, and can be pickled.

    Fields that may hold a secret are left out of the repr.
    """

    env: str = "local"
    """Name of the backend, or a class as `package.module:Class`. In `config.yaml` also `backend`."""
    over: str | None = None
    """`ssh`: use Docker or Singularity of another host, given by the settings of SSH such as `ssh_host`."""
    cwd: str | None = None
    """Directory in the target where sessions start; the backend's choice if not set."""
    timeout: PositiveFloat = 180.0
    """Seconds that a command may run, unless the call gives a limit."""
    lifetime_seconds: PositiveFloat = 300.0
    """Seconds without use after which an environment of `get_environment` is cleaned up."""
    persistent_shell: bool = True
    """True: one shell runs all commands of a session. False: each command gets a new shell."""
    max_output_bytes: PositiveInt = 10_000_000
    """Bytes of a command's output that are kept; beyond, the middle is cut."""
    task_id: str = "default"
    """Label of the target; kept files return under the same name."""
    env_passthrough: tuple[str, ...] = ()
    """Names of this process's variables for commands and scripts. A session's own exports take precedence."""
    scrub_env: bool = False
    """True: commands receive only harmless and passed-through variables and those of the backend's `env`, as scripts
    always do."""
    login_shell: bool = False
    """True: sessions source `/etc/profile` and the user's profile; needed for `module`, conda or nvm."""
    init_files: tuple[Annotated[str, Field(pattern="^-?(/|~/)")], ...] = ()
    """Files in the target that sessions source after the profile, such as `["~/.bashrc"]`. A leading `-` allows a
    missing or failing file."""
    init_timeout: PositiveFloat = 30.0
    """Seconds for each of these files."""

    redact_secrets: bool = True
    """True: a model sees `[REDACTED:NAME]` in place of secrets and of texts in the form of a key."""
    strip_ansi: bool = True
    """True: terminal controls, such as colours, are removed from output for a model."""
    record: str | None = None
    """File on this machine that records all actions, one JSON object a line."""
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

    # Only a backend's package knows the type of its settings; `DockerSettings.of(settings)` returns it typed.
    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        """Return the backend's settings, by its prefix without the underscore."""
        if name.startswith("_") or name in ("own", "own_over"):  # looked up in an empty object by copy and pickle
            raise AttributeError(name)
        for own in (self.own, self.own_over):
            if own and name == own.prefix.removesuffix("_"):
                return own
        raise AttributeError(
            f"there is no setting {name!r}; these are settings of backend {self.env!r}, and load_settings returns "
            "those of another"
        )


def of_new_targets(prefix: str, names: Iterable[str]) -> frozenset[str]:
    """Return the full names of all settings for new targets.

    Args:
        prefix: Prefix of the backend.
        names: Names of the backend's settings for new targets, without the prefix.
    """
    return frozenset({*(prefix + name for name in names), *RESOURCE_SETTINGS, "container_persistent"})


def refuse_beside(settings: EnvironmentSettings, joined: str, names: Iterable[str]) -> None:
    """Refuse settings for new targets beside a running target.

    Args:
        settings: All settings.
        joined: The setting that names the running target.
        names: Names of the backend's settings for new targets, without the prefix.

    Raises:
        UnsupportedError: A limit is set.
        SettingsError: Another such setting is set.
    """
    limits = [name for name in RESOURCE_SETTINGS if getattr(settings, name)]
    if limits:
        raise UnsupportedError(
            f"backend {settings.env!r} cannot enforce {', '.join(limits)} in a running target, which has its "
            f"own limits; unset {'it' if len(limits) == 1 else 'them'}, or {joined}"
        )
    own = settings.own
    usual = type(own)()
    given = [name for name in names if getattr(own, name) != getattr(usual, name)]
    given += ["container_persistent"] if settings.container_persistent else []
    if given:
        are, them = ("is", "it") if len(given) == 1 else ("are", "them")
        raise SettingsError(
            f"backend {settings.env!r}: {joined} names a running target, and {', '.join(given)} {are} for a "
            f"new target; unset {them}, or {joined}"
        )
