"""Settings of hermes-agent 0.13 to 0.22, the system that this package follows, as a table.

Its `config.yaml` and variables keep working. A setting with an equivalent is translated; other settings are ignored
with one warning. docs/moving-from-hermes-agent.md shows the table, `make compare` checks the table.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from operator import not_
from pathlib import Path
from typing import Any

from environments.errors import UnsupportedError
from environments.log import warn_once
from environments.settings import EnvironmentSettings
from environments.validation import Given, Layer

DEFAULT_LIMITS: Mapping[str, float] = {"container_cpu": 1, "container_memory": 5120, "container_disk": 51200}
"""Default limits in hermes-agent's `config.yaml`. A target that cannot enforce a default goes without."""

_PRIVATE = ("10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "::1/128", "fc00::/7")
"""Networks opened by `allow_private_urls`, without the link-local networks with the metadata services of clouds."""


def _is_blank(value: object) -> bool:
    return value is None or value == ""


def _is_placeholder(value: object) -> bool:
    return _is_blank(value) or value in (".", "auto", "cwd")


def _is_off(value: object) -> bool:
    return not (isinstance(value, Mapping) and value.get("enabled"))


def _kernel_mode(value: object) -> object:
    return "script" if value == "per-call" else value


def _init_files(value: object) -> list[str]:
    """Return the init files as optional files of this package. hermes-agent read them on the local machine only."""
    files = value if isinstance(value, list) else []
    paths = (os.path.expandvars(Path(str(file)).expanduser()) for file in files if file)
    return [f"-{Path(path).absolute()}" for path in paths]


@dataclass(frozen=True, slots=True, kw_only=True)
class HermesAgentSetting:
    """One setting of hermes-agent."""

    name: str
    """Section and key in hermes-agent's `config.yaml`. A setting known only as a variable is listed under
    `terminal`."""
    here: str = ""
    """Section and key of the equivalent setting here; empty if ignored."""
    note: str = ""
    """The difference, or the reason to ignore the setting: the text after `passed over: `."""
    values: Mapping[str, object] | None = None
    """Translation of values, in lower case; other values are ignored. None keeps all values."""
    converted: Callable[[object], object] | None = None
    """Converts a value; None keeps the value."""
    is_unset: Callable[[object], bool] = _is_blank
    """True for a value that means unset."""
    backend: str = ""
    """The backend of the setting, if the equivalent here is a setting of all backends."""
    goes_first: bool = False
    """True if the setting overrides the equivalent setting here; normally the equivalent wins."""
    written: str = "both"
    """Source of a `terminal` setting: `file`, `variable` or `both`. Other sections are in the file only."""
    beside: str = ""
    """The section here whose reading triggers the warning for an ignored setting of another section."""

    @property
    def section(self) -> str:
        """The section of `config.yaml`."""
        return self.name.partition(".")[0]

    @property
    def key(self) -> str:
        """The key in the section."""
        return self.name.partition(".")[2]

    @property
    def read_with(self) -> str:
        """The section here whose reading includes the setting."""
        return (self.here or self.beside or self.name).partition(".")[0]

    @property
    def variable(self) -> str:
        """Name of the environment variable; empty without one."""
        if self.section != "terminal" or self.written == "file":
            return ""
        return "TERMINAL_ENV" if self.key in ("backend", "env_type") else f"TERMINAL_{self.key.upper()}"

    @property
    def is_same(self) -> bool:
        """True if name and values are unchanged here."""
        return self.name == self.here and self.values is None and self.converted is None


def _passed_over(section: str, notes: Mapping[str, str], **common: Any) -> list[HermesAgentSetting]:  # noqa: ANN401
    return [HermesAgentSetting(name=f"{section}.{key}", note=note, **common) for key, note in notes.items()]


def _same(section: str, notes: Mapping[str, str], **common: Any) -> list[HermesAgentSetting]:  # noqa: ANN401
    return [replace(older, here=older.name) for older in _passed_over(section, notes, **common)]


_TERMINAL = [
    HermesAgentSetting(name="terminal.backend", here="terminal.backend", note="Or `terminal.env`."),
    HermesAgentSetting(
        name="terminal.env_type",
        here="terminal.backend",
        note="`terminal.backend` goes before it.",
        written="file",
    ),
    HermesAgentSetting(
        name="terminal.cwd",
        here="terminal.cwd",
        is_unset=_is_placeholder,
        note="`.`, `auto` and `cwd` mean not set. A directory of the target, also in a container; a missing one is "
        "created in a new Docker container only.",
    ),
    *_same(
        "terminal",
        {
            "timeout": "",
            "lifetime_seconds": "",
            "persistent_shell": "Also on `local`, without a setting of its own.",
            "docker_image": "`python:3.12-slim` if not set.",
            "docker_volumes": "A missing host path is an error.",
            "docker_env": "Not in `docker inspect`.",
            "docker_forward_env": "Variables of this process only, not of a `.env` file.",
            "docker_extra_args": "Unknown flags are refused.",
            "docker_mount_cwd_to_workspace": "This process's directory, also beside `cwd`.",
            "docker_run_as_host_user": "",
            "docker_network": "",
            "singularity_image": "`docker://python:3.12-slim` if not set.",
            "modal_image": "No path of a Dockerfile: use `dockerfile_commands`. Modal's own if not set.",
            "daytona_image": "Daytona's own if not set.",
            "ssh_host": "Also a `Host` of `~/.ssh/config`.",
            "ssh_user": "Optional.",
            "ssh_port": "",
            "ssh_key": "",
            "container_cpu": "",
            "container_memory": "4096 in Docker if not set.",
            "container_disk": "Refused where Docker's storage has no quota.",
            "container_persistent": "Off by default. Docker keeps the whole container, not some directories.",
        },
    ),
    *_same(
        "terminal",
        {"env_passthrough": "Also a variable. Needed for API keys on `local`, as there."},
        written="file",
    ),
    *(
        HermesAgentSetting(
            name=f"terminal.{backend}_persistent",
            here="terminal.persistent_shell",
            backend=backend,
            goes_first=True,
            note="Goes before `persistent_shell` on its backend.",
            written="variable",
        )
        for backend in ("ssh", "local")
    ),
    *_passed_over(
        "terminal",
        {
            "modal_mode": "sandboxes are always in your own Modal account; there is no gateway",
            "docker_persist_across_processes": "container_persistent alone decides whether a container is kept",
            "docker_orphan_reaper": "`hermes-env gc` removes the leftovers of killed processes",
            "vercel_runtime": "there is no backend vercel_sandbox; use modal or daytona",
            "sandbox_dir": "kept files lie in the engine, the service, or below HERMES_HOME",
            "home_mode": "commands have the home of the target's user; set HOME with env or in the command",
        },
    ),
    *(
        HermesAgentSetting(
            name="terminal.container_network",
            here=f"terminal.{backend}_network",
            backend=backend,
            note="`full` or `none`; the list of hosts in place of `allowlist`.",
            written="file",
        )
        for backend in ("docker", "singularity", "modal", "daytona")
    ),
    HermesAgentSetting(
        name="terminal.shell_init_files",
        here="terminal.init_files",
        converted=_init_files,
        is_unset=not_,
        backend="local",
        note="Only on `local`, as there. A missing file is skipped; a file that fails is a warning.",
        written="file",
    ),
    HermesAgentSetting(
        name="terminal.auto_source_bashrc",
        here="terminal.init_files",
        values={"true": ["-~/.profile", "-~/.bash_profile", "-~/.bashrc"], "false": None},
        is_unset=not_,
        backend="local",
        note="If true in the file, without `shell_init_files`: `~/.profile`, `~/.bash_profile` and `~/.bashrc`. By "
        "default no file is sourced.",
        written="file",
    ),
    *_passed_over(
        "terminal",
        {
            "daemon_term_grace_seconds": "a process always has one second between TERM and KILL",
            "degraded_mode": "a backend that cannot be reached is always an error",
            "temp_dir": "temporary files lie in the target's TMPDIR; set it with env or in the command",
            "oneshot_completion_wait_seconds": "only the command line of hermes-agent uses it",
            "docker_shm_size": "use extra_args, such as --shm-size=1g",
            "credential_files": "no file is copied to the target by itself; use put_file",
            "sudo_password": "sudo gets no password; allow the command in sudoers, or log in as that user",
        },
        written="file",
    ),
    *_passed_over(
        "terminal",
        {
            "font_family": "only the desktop application of hermes-agent uses it",
            "docker_snap_compat": "a container keeps its init and no-new-privileges, which snap's Docker may refuse",
            "docker_shared_container_key": "a pool, or one task_id, shares containers",
        },
        written="file",
        is_unset=not_,
    ),
    *_passed_over(
        "terminal",
        {
            "scratch_dir": "an instance's files lie in memory or below TMPDIR, and below HERMES_HOME if kept",
            "max_foreground_timeout": "the timeout of a command alone limits it",
            "disk_warning_gb": "disk space is not watched; container_disk limits it where the backend can",
            "managed_modal_connect_timeout_seconds": "Modal's own client makes sandboxes",
            "managed_modal_poll_read_timeout_seconds": "Modal's own client makes sandboxes",
            "managed_modal_cancel_read_timeout_seconds": "Modal's own client makes sandboxes",
        },
        written="variable",
    ),
]

_CODE_EXECUTION = [
    *_same("code_execution", dict.fromkeys(("mode", "timeout", "max_tool_calls"), "")),
    HermesAgentSetting(
        name="code_execution.kernel_mode",
        here="code_execution.kernel_mode",
        converted=_kernel_mode,
        note="`per-call` is `script`, the default here.",
    ),
    *_passed_over(
        "code_execution",
        {
            "kernel_idle_timeout": "a kept Python stays as long as its environment",
            "max_session_kernels": "each environment keeps one Python",
        },
    ),
]

_APPROVALS = [
    HermesAgentSetting(
        name="approvals.mode",
        here="approvals.destructive_commands",
        values={"manual": "ask", "off": "allow", "false": "allow"},
        note="no model judges commands here; mode manual is `destructive_commands: ask`, and off is `allow`",
    ),
    *_same(
        "approvals",
        {
            "timeout": "No limit if not set.",
            "deny": "A pattern also covers further words, and is compared with each command of a line.",
        },
    ),
    *_passed_over(
        "approvals",
        {
            "cron_mode": "there is no timetable here; without a way to ask, ask means deny",
            "single_query_mode": "without a way to ask, ask means deny",
            "unattended_mode": "without a way to ask, ask means deny",
            "smart_policy": "no model judges commands here; write commands in deny, ask and allow",
            "denial_breaker_threshold": "denials are not counted here",
            "mcp_reload_confirm": "there is no such function here",
            "destructive_slash_confirm": "there is no such function here",
        },
    ),
]

_SEARCH = {"searxng": "searxng", "brave": "brave", "brave-free": "brave", "tavily": "tavily", "ddgs": "ddgs"}
_WEB = [
    *(
        HermesAgentSetting(
            name=f"web.{key}",
            here="web.search_provider",
            values=_SEARCH,
            note=f"{which} searxng, brave, tavily and ddgs; set web.search_provider to one",
        )
        for key, which in (
            ("search_backend", "the search providers are"),
            ("backend", "this package reads pages itself; the search providers are"),
        )
    ),
    *_same("web", {"extract_char_limit": "The rest of a page is dropped."}),
    *_passed_over(
        "web",
        {
            "extract_backend": "this package reads pages itself",
            "use_gateway": "there is no gateway; searches use your own key",
            "xai": "xai is no search provider here",
            "keyless_fallback": "search_provider, or a URL or key, selects the search provider",
            "keyless_rescue": "a failing search provider is an error",
            "provider_tier": "searches use your own key",
            "cache_enabled": "there is no cache of pages and searches",
            "cache_ttl_minutes": "there is no cache of pages and searches",
            "cache_exempt_hosts": "there is no cache of pages and searches",
        },
        is_unset=not_,
    ),
]

_SECURITY = [
    HermesAgentSetting(name="security.redact_secrets", here="terminal.redact_secrets"),
    HermesAgentSetting(
        name="security.allow_private_urls",
        here="web.allow_private",
        values={"true": list(_PRIVATE), "false": None},
        note="`true` is the private and loopback networks, without link-local networks",
    ),
    HermesAgentSetting(
        name="security.website_blocklist",
        beside="web",
        note="web_extract has no list of blocked sites",
        is_unset=_is_off,
    ),
]

HERMES_AGENT_SETTINGS: tuple[HermesAgentSetting, ...] = (*_TERMINAL, *_CODE_EXECUTION, *_APPROVALS, *_WEB, *_SECURITY)
"""The table. Of two settings with one equivalent, the first wins."""


def translated(section: str, layer: Layer, read: Callable[[str], Layer]) -> Layer:
    """Return a section's layer with the settings of hermes-agent, from this and other sections, translated.

    Args:
        section: Section of this package.
        layer: Values of the section.
        read: Returns the layer of another section.
    """
    layers = {section: layer}
    result = dict(layer)
    for older in HERMES_AGENT_SETTINGS:
        if older.read_with != section or older.backend:
            continue
        if older.section not in layers:
            layers[older.section] = read(older.section)
        given = layers[older.section].get(older.key)
        if given is None:
            continue
        if older.is_same:
            result[older.key] = Given(None, given.where) if older.is_unset(given.value) else given
            continue
        if older.section == section:
            del result[older.key]
        if not older.is_unset(given.value):
            _move(older, given, result)
    return result


def translated_for(backend: str, layer: Layer) -> Layer:
    """Return a `terminal` layer with hermes-agent's settings of one backend translated.

    Args:
        backend: The backend. Settings of other backends are dropped.
        layer: The values.
    """
    of_backends = {older.key for older in HERMES_AGENT_SETTINGS if older.backend}
    result = {key: given for key, given in layer.items() if key not in of_backends}
    for older in HERMES_AGENT_SETTINGS:
        given = layer.get(older.key)
        if older.backend == backend and given is not None:
            if older.goes_first and given.value is not None:
                result.pop(older.here.partition(".")[2], None)
            if not older.is_unset(given.value):
                _move(older, given, result)
    return result


def _move(older: HermesAgentSetting, given: Given, layer: Layer) -> None:
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


class UnenforcedLimitsError(UnsupportedError):
    """A target cannot enforce the requested limits.

    Args:
        message: The remedy.
        names: Names of the limits.
        why: The reason.
    """

    def __init__(self, message: str, names: Collection[str] = (), why: str = "") -> None:
        super().__init__(message)
        self.names = frozenset(names)
        self.why = why


def with_default_limits(settings: EnvironmentSettings, chosen: Collection[str]) -> EnvironmentSettings:
    """Return settings with `default_limits`, and without the defaults that the backend never enforces.

    Args:
        settings: The loaded settings.
        chosen: Names of settings given as arguments, which are not defaults.
    """
    defaults = {
        name for name, value in DEFAULT_LIMITS.items() if getattr(settings, name) == value and name not in chosen
    }
    if not defaults:
        return settings
    settings = replace(settings, default_limits=frozenset(defaults))
    return _without(settings, settings.own.unheld(settings), "it has no such limit")


def without_unenforced_limits(settings: EnvironmentSettings, error: UnenforcedLimitsError) -> EnvironmentSettings:
    """Return settings without the unenforced limits, if they are defaults. Otherwise raises `error`."""
    if not settings.default_limits & error.names:
        raise error
    return _without(settings, error.names, error.why)


def _without(settings: EnvironmentSettings, unheld: Collection[str], why: str) -> EnvironmentSettings:
    names = [name for name in DEFAULT_LIMITS if name in settings.default_limits and name in unheld]
    if not names:
        return settings
    default = "It is a default" if len(names) == 1 else "They are defaults"
    warn_once(
        f"limits {settings.env} {names}",
        f"backend {settings.env!r} does not enforce {', '.join(names)}: {why}. {default} of hermes-agent and "
        "passed over; another value is refused, and 0 is no limit without a warning",
    )
    unset: dict[str, Any] = dict.fromkeys(names)
    return replace(settings, default_limits=settings.default_limits.difference(names), **unset)
