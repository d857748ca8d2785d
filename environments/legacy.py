"""What became of the settings of hermes-agent 0.19.0, the system that this package follows.

Its `config.yaml` and its variables go on working: what has its like here is taken for that, and the rest is passed over
with one warning. This is the table of both, without the code that applies it, which is in `config` and `sources`.
docs/moving-from-hermes-agent.md shows it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

DEFAULT_LIMITS: Mapping[str, float] = {"container_cpu": 1, "container_memory": 5120, "container_disk": 51200}
"""The limits that its `config.yaml` has when nobody chose any. A target that cannot hold them goes without."""

_PRIVATE = ("10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "::1/128", "fc00::/7")
"""What `allow_private_urls` opened. Link-local addresses, where clouds have their metadata, are not among it."""


def _is_blank(value: object) -> bool:
    return value is None or value == ""


def _is_placeholder(value: object) -> bool:
    return _is_blank(value) or value in (".", "auto", "cwd")


def _says_no(value: object) -> bool:
    return not value


def _init_files(value: object) -> list[str]:
    """Return its files as ours that may be missing, and may fail. It had them on this machine alone."""
    files = value if isinstance(value, list) else []
    paths = (os.path.expandvars(Path(str(file)).expanduser()) for file in files if file)
    return [f"-{Path(path).absolute()}" for path in paths]


def _is_off(value: object) -> bool:
    return not (isinstance(value, Mapping) and value.get("enabled"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Older:
    """One setting of the older system."""

    name: str
    """Section and key, as in its `config.yaml`. One that it had as a variable alone is under `terminal` too."""
    here: str = ""
    """Section and key of the setting here, of the same meaning; empty if it is passed over."""
    note: str = ""
    """In what it differs, or why it is passed over: what comes behind `passed over: `."""
    values: Mapping[str, object] | None = None
    """Those of its values, in lower case, that have their like here; the others are passed over. None is all, as they
    are."""
    converted: Callable[[object], object] | None = None
    """Makes of a value what it is here; None leaves it as it is."""
    says_nothing: Callable[[object], bool] = _is_blank
    """Whether a value means that nothing is set."""
    backend: str = ""
    """The backend it is for, where a setting of all backends stands for it here."""
    goes_first: bool = False
    """Whether it goes before the setting of its name here, and not that before it."""
    written: str = "both"
    """Where it is written: in the `file`, as a `variable`, or `both`."""

    @property
    def section(self) -> str:
        """The section of `config.yaml`."""
        return self.name.partition(".")[0]

    @property
    def key(self) -> str:
        """The key in that section."""
        return self.name.partition(".")[2]

    @property
    def variable(self) -> str:
        """The variable; empty if there is none."""
        if self.written == "file":
            return ""
        return "TERMINAL_ENV" if self.key in ("backend", "env_type") else f"TERMINAL_{self.key.upper()}"

    @property
    def is_same(self) -> bool:
        """Whether name and values are the same here."""
        return self.name == self.here and self.values is None


def _same(section: str, notes: Mapping[str, str], written: str = "both") -> list[Older]:
    return [
        Older(name=f"{section}.{key}", here=f"{section}.{key}", note=note, written=written)
        for key, note in notes.items()
    ]


def _passed_over(section: str, reasons: Mapping[str, str], written: str = "both") -> list[Older]:
    return [Older(name=f"{section}.{key}", note=note, written=written) for key, note in reasons.items()]


_A_LIMIT = "A backend that cannot hold it refuses it. The older default is passed over there, with a warning."

_TERMINAL = [
    Older(name="terminal.backend", here="terminal.backend", note="Or `terminal.env`."),
    Older(
        name="terminal.env_type",
        here="terminal.backend",
        note="An older name still; `terminal.backend` goes before it.",
        written="file",
    ),
    Older(
        name="terminal.cwd",
        here="terminal.cwd",
        says_nothing=_is_placeholder,
        note="`.`, `auto` and `cwd` mean that none is set. It is a directory of the target, also in a container, where "
        "a host's path was left out of account; one that is not there is made in a new Docker container, and else an "
        "error.",
    ),
    *_same(
        "terminal",
        {
            "timeout": "",
            "lifetime_seconds": "",
            "persistent_shell": "It holds on this machine as well, where it had to be switched on apart.",
            "docker_image": "Without one, `python:3.12-slim`.",
            "docker_volumes": "A host path that is not there is an error, and is not made.",
            "docker_env": "Not shown by `docker inspect`.",
            "docker_forward_env": "Variables of this process alone, and not of a `.env` file.",
            "docker_extra_args": "A flag that is not understood is refused.",
            "docker_mount_cwd_to_workspace": "It is this process's working directory, whatever `cwd` says.",
            "docker_run_as_host_user": "",
            "docker_network": "",
            "singularity_image": "Without one, `docker://python:3.12-slim`.",
            "modal_image": "An image and not the path of a Dockerfile, for which there is `modal_dockerfile_commands`. "
            "Without one, Modal's own.",
            "daytona_image": "Without one, Daytona's own.",
            "ssh_host": "It may be a `Host` of `~/.ssh/config`.",
            "ssh_user": "Need not be set.",
            "ssh_port": "",
            "ssh_key": "",
            "container_cpu": _A_LIMIT,
            "container_memory": f"{_A_LIMIT} Without one, 4096 in Docker.",
            "container_disk": f"{_A_LIMIT} It was left out of account where Docker's storage has no quota.",
            "container_persistent": "Off by default. In Docker the whole container is kept, not some directories.",
        },
    ),
    *_same("terminal", {"env_passthrough": "Also a variable."}, written="file"),
    *(
        Older(
            name=f"terminal.{backend}_persistent",
            here="terminal.persistent_shell",
            backend=backend,
            goes_first=True,
            note="Where this backend is in use, it goes before `persistent_shell`.",
            written="variable",
        )
        for backend in ("ssh", "local")
    ),
    *_passed_over(
        "terminal",
        {
            "modal_mode": "sandboxes are always those of your own account at Modal; there is no gateway to choose",
            "docker_persist_across_processes": "container_persistent alone says whether a container is kept",
            "docker_orphan_reaper": "nothing is removed in passing; `hermes-env gc` removes what killed processes left",
            "sandbox_dir": "what is kept lies in the engine, the service, or below HERMES_HOME",
            "home_mode": "commands have the home of the target's user; set HOME with docker_env or in the command",
        },
    ),
    Older(
        name="terminal.shell_init_files",
        here="terminal.init_files",
        converted=_init_files,
        says_nothing=_says_no,
        backend="local",
        note="On this machine alone, as there. One that is missing is passed over; one that ends the shell, or hangs, "
        "is warned of.",
        written="file",
    ),
    Older(
        name="terminal.auto_source_bashrc",
        here="terminal.init_files",
        values={"true": ["-~/.profile", "-~/.bash_profile", "-~/.bashrc"], "false": None},
        says_nothing=_says_no,
        backend="local",
        note="In the same way, where it is written down as true and `shell_init_files` names none: `~/.profile`, "
        "`~/.bash_profile` and `~/.bashrc`. By default no file is read here.",
        written="file",
    ),
    *_passed_over(
        "terminal",
        {
            "daemon_term_grace_seconds": "what is ended always has a second between TERM and KILL",
            "credential_files": "no files are brought to the target by themselves; put_file does it",
            "sudo_password": "no password is typed for sudo; allow the command in sudoers, or log in as that user",
        },
        written="file",
    ),
    *_passed_over(
        "terminal",
        {
            "scratch_dir": "what an instance writes lies in memory or below TMPDIR, or below HERMES_HOME if it is kept",
            "max_foreground_timeout": "a command may run for as long as its own timeout says",
            "disk_warning_gb": "disk space is not watched; container_disk limits it where the backend can",
            "managed_modal_connect_timeout_seconds": "sandboxes are made through Modal's own client",
            "managed_modal_poll_read_timeout_seconds": "sandboxes are made through Modal's own client",
            "managed_modal_cancel_read_timeout_seconds": "sandboxes are made through Modal's own client",
        },
        written="variable",
    ),
]

_APPROVALS = [
    Older(
        name="approvals.mode",
        here="approvals.destructive_commands",
        values={"manual": "ask", "off": "allow", "false": "allow"},
        note="no model judges commands here; destructive_commands, commands and scripts say what is asked about; "
        "mode manual is `destructive_commands: ask`, and off is `allow`",
        written="file",
    ),
    *_same(
        "approvals",
        {
            "timeout": "Without one, an answer is waited for as long as it takes.",
            "deny": "More words may follow what a pattern names, and each command of a line is held against it.",
        },
        written="file",
    ),
    *_passed_over(
        "approvals",
        {
            "cron_mode": "nothing runs by a timetable; where nobody can be asked, asking is denying",
            "mcp_reload_confirm": "there is nothing here that it is about",
            "destructive_slash_confirm": "there is nothing here that it is about",
        },
        written="file",
    ),
]

_SEARCH = {"searxng": "searxng", "brave": "brave", "brave-free": "brave", "tavily": "tavily", "ddgs": "ddgs"}
_WEB = [
    *(
        Older(
            name=f"web.{key}",
            here="web.search_provider",
            values=_SEARCH,
            note=f"{which} searxng, brave (or brave-free), tavily and ddgs; set web.search_provider to one",
            written="file",
        )
        for key, which in (
            ("search_backend", "the search providers here are"),
            ("backend", "pages are read by this package itself, and the search providers here are"),
        )
    ),
    *_same("web", {"extract_char_limit": "What is beyond it is left out, and kept nowhere."}, written="file"),
    *_passed_over(
        "web",
        {
            "extract_backend": "pages are read by this package itself",
            "use_gateway": "there is no gateway; a search provider is asked with your own key",
            "xai": "it is no search provider here",
        },
        written="file",
    ),
]

_SECURITY = [
    Older(name="security.redact_secrets", here="terminal.redact_secrets", written="file"),
    Older(
        name="security.allow_private_urls",
        here="web.allow_private",
        values={"true": list(_PRIVATE), "false": None},
        note="`true` is the private and loopback networks, without link-local ones",
        written="file",
    ),
    Older(
        name="security.website_blocklist",
        note="web_extract has no list of sites that it does not read",
        says_nothing=_is_off,
        written="file",
    ),
]

OLDER: tuple[Older, ...] = (
    *_TERMINAL,
    *_same("code_execution", dict.fromkeys(("mode", "timeout", "max_tool_calls"), ""), written="file"),
    *_APPROVALS,
    *_WEB,
    *_SECURITY,
)
"""All of them. Of two that are the same here, the first goes before the second."""

READ_FOR: Mapping[str, str] = {"security.website_blocklist": "web"}
"""With which section here a key of another section is looked at that has nothing here."""
