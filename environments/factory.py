"""Creation of environments from settings and arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING, overload

from environments.base import BaseEnvironment
from environments.registry import backend_class
from environments.settings import EnvironmentSettings
from environments.sources import config_layer, is_config_empty, load_settings

if TYPE_CHECKING:
    from environments.approvals.hooks import Approver, CommandHook, ScriptHook, ToolCallHook
    from environments.approvals.rules import Rules
    from environments.approvals.settings import ApprovalSettings
    from environments.progress import OnProgress


def host_over(settings: EnvironmentSettings) -> BaseEnvironment | None:
    """Return an environment on the machine of the setting `over`, not started; None without `over`.

    Raises:
        MissingExtraError: The backend's client library is not installed.
    """
    if settings.over is None or settings.own_over is None:
        return None
    host = EnvironmentSettings(env=settings.over, task_id=settings.task_id, own=settings.own_over)
    return backend_class(host.env).create(host)


def host_at(url: str) -> BaseEnvironment:
    """Return an environment on the machine of a URL such as `ssh://user@host:22`, not started.

    Args:
        url: URL whose scheme is the backend's name. Other settings, such as the key, come from the configuration.

    Raises:
        SettingsError: The URL is malformed, or no backend has this name.
        MissingExtraError: The backend's client library is not installed.
    """
    found = load_settings(url.partition("://")[0])
    return backend_class(found.env).create(EnvironmentSettings(env=found.env, own=found.own.at(url)))


@overload
def create_environment(
    backend: str | None = None,
    *,
    before_command: CommandHook | None = None,
    before_script: ScriptHook | None = None,
    before_tool_call: ToolCallHook | None = None,
    approve: Approver | None = None,
    on_progress: OnProgress | None = None,
    **settings: object,
) -> BaseEnvironment: ...


# Accepts a dictionary of settings, with values of any type, as `**settings`.
@overload
def create_environment(backend: str | None = None, **settings: object) -> BaseEnvironment: ...


def create_environment(  # type: ignore[misc]  # the second form lets values of any type through to the first
    backend: str | None = None,
    *,
    before_command: CommandHook | None = None,
    before_script: ScriptHook | None = None,
    before_tool_call: ToolCallHook | None = None,
    approve: Approver | None = None,
    on_progress: OnProgress | None = None,
    **settings: object,
) -> BaseEnvironment:
    """Build an environment from `config.yaml`, overridden by `TERMINAL_*` variables, overridden by the arguments.

    The target starts on first use.

    Args:
        backend: A name of `backend_names()`, or a class as `package.module:Class`; None uses the configured backend, by
            default `local`.
        before_command: Decides on each command, see docs/approvals.md. The rules of `approvals:` in `config.yaml` apply
            besides, here and for the next two arguments.
        before_script: Decides on each script of `execute_code`.
        before_tool_call: Decides on each tool call of a script.
        approve: Answers the questions of hooks and rules. Without this callback, a question is a denial.
        on_progress: Receives the progress of starts, uploads and downloads, see `environments.progress.Progress`. For a
            transfer the callback runs in the waiting thread, for a start in a worker thread. Its exceptions are logged
            and ignored.
        settings: Any field of `EnvironmentSettings` or of the backend's own settings, such as `image="x"` with
            `"docker"`.

    Returns:
        The environment, not started.

    Raises:
        SettingsError: A setting or the backend is unknown, or a value is not allowed.
        UnsupportedError: The backend does not support a setting.
        MissingExtraError: The backend's client library is not installed; or `approvals.destructive_commands` is set
            without the extra `approvals`.
    """
    return environment_of(
        load_settings(backend, **settings),
        before_command=before_command,
        before_script=before_script,
        before_tool_call=before_tool_call,
        approve=approve,
        on_progress=on_progress,
    )


def environment_of(
    settings: EnvironmentSettings,
    *,
    before_command: CommandHook | None = None,
    before_script: ScriptHook | None = None,
    before_tool_call: ToolCallHook | None = None,
    approve: Approver | None = None,
    on_progress: OnProgress | None = None,
) -> BaseEnvironment:
    """Build an environment from loaded settings.

    All other arguments, and errors, are those of `create_environment`.
    """
    rules = _configured_rules()
    environment = backend_class(settings.env).create(settings)
    environment.progress.callback = on_progress
    gate = environment.gate
    gate.rules, gate.approve = rules, approve
    gate.before_command, gate.before_script, gate.before_tool_call = before_command, before_script, before_tool_call
    return environment


def load_approval_settings() -> ApprovalSettings | None:
    """Read the section `approvals:` of config.yaml; None without the section.

    Raises:
        SettingsError: A key is unknown, or a value is not allowed.
    """
    from environments.approvals.settings import approval_settings

    return approval_settings(config_layer("approvals"))


def _configured_rules() -> Rules | None:
    settings = None if is_config_empty() else load_approval_settings()
    if settings is None:
        return None
    from environments.approvals.rules import Rules  # slow to import

    return Rules(settings)
