"""An environment for mini-swe-agent on every backend, see docs/agents.md."""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any

from minisweagent.exceptions import Submitted
from minisweagent.utils.serialize import recursive_merge
from pydantic import BaseModel, Field

from environments import BaseEnvironment, TerminalError, create_environment

_SUBMIT = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_SYSTEM = ("system", "node", "release", "version", "machine")
_UNAME = "uname -s; uname -n; uname -r; uname -v; uname -m"


class HermesEnvironmentConfig(BaseModel, extra="allow"):
    """The `environment:` section of the configuration. All other fields are settings of `create_environment`."""

    backend: str | None = None
    """A backend's name; None is the configured backend."""
    cwd: str = ""
    """The directory of commands; empty is this process's directory on this machine, and elsewhere the target's."""
    env: dict[str, str] = Field(default_factory=dict)
    """Variables for every command."""
    forward_env: list[str] = Field(default_factory=list)
    """Names of this process's variables for every command, if set here. `env` has precedence."""
    timeout: int = 30
    """Time limit of a command in seconds."""
    interpreter: list[str] = Field(default_factory=list)
    """The interpreter of commands, such as `["bash", "-lc"]`; empty is the target's shell without start-up files."""
    container_timeout: str = ""
    """Lifetime of the target in the format of `sleep`, such as `2h`; empty is the lifetime of this object."""


class HermesEnvironment:
    """Runs mini-swe-agent's commands in one of our environments. Each command has a new shell; only files are shared.

    Args:
        config_class: The class that validates the configuration.
        logger: Ignored; accepted for compatibility with mini-swe-agent's own environments.
        config: See `HermesEnvironmentConfig`.

    Raises:
        TerminalError: A setting is wrong, or the target could not be started.
    """

    def __init__(
        self,
        *,
        config_class: type[HermesEnvironmentConfig] = HermesEnvironmentConfig,
        logger: object = None,
        **config: object,
    ) -> None:
        self.config = config_class.model_validate(config)
        given = {"cwd": self.config.cwd} if self.config.cwd else {}  # Docker makes a missing directory
        self.env = create_environment(self.config.backend, **{**(self.config.model_extra or {}), **given})
        self.cleanup = weakref.finalize(self, self.env.cleanup)
        """Removes the target. Also called when this object is garbage-collected, and at the process's end."""
        try:
            self.target = self.env.target
        except BaseException:
            self.cleanup()
            raise
        if self.config.container_timeout:
            _end_later(self.env, self.config.container_timeout, self)

    @property
    def container_id(self) -> str:
        """The id of the target at the engine."""
        return self.target.id

    def execute(self, action: dict[str, Any], cwd: str = "", *, timeout: int | None = None) -> dict[str, Any]:
        """Run an action's command.

        Args:
            action: The action with the `command`.
            cwd: The directory; the default is the configured directory.
            timeout: Seconds; the default is the configured time limit.

        Returns:
            `output` with standard error, `returncode`, and `exception_info` with the error if `returncode` is -1.

        Raises:
            Submitted: The command reports that the task is done.
        """
        command, limit = action.get("command", ""), timeout or self.config.timeout
        forwarded = {name: value for name in self.config.forward_env if (value := os.environ.get(name)) is not None}
        try:
            result = self.env.execute_oneshot(
                [*self.config.interpreter, command] if self.config.interpreter else command,
                cwd=cwd or self._usual_directory(),
                env={**forwarded, **self.config.env},
                timeout=limit,
            )
        except (TerminalError, ValueError) as error:
            return _failed(getattr(error, "output", ""), type(error).__name__, str(error))
        output = self.env.model_view().captured(result.captured).with_count()
        if result.timed_out:
            return _failed(output, "TimeoutExpired", f"Command '{command}' timed out after {limit} seconds")
        _check_submitted(output, result.exit_code)
        return {"output": output, "returncode": result.exit_code, "exception_info": ""}

    def _usual_directory(self) -> str | None:
        is_theirs = self.env.capabilities.same_machine and not self.config.cwd
        return os.getcwd() if is_theirs else None  # noqa: PTH109

    def get_template_vars(self, **variables: object) -> dict[str, Any]:
        """Return the variables for prompts: the configuration, the target's `uname`, and the given variables.

        On this machine also the environment variables of commands, without keys of services.
        """
        uname = self.env.execute_oneshot(_UNAME)
        system = dict(zip(_SYSTEM, uname.output.splitlines(), strict=False)) if uname.ok else {}
        is_here = self.env.capabilities.same_machine
        lines = self.env.execute_oneshot("cat /proc/self/environ").output.split("\0") if is_here else []
        here = dict(line.split("=", 1) for line in lines if "=" in line)
        merged: dict[str, Any] = recursive_merge(self.config.model_dump(), system, here, variables)
        return merged

    def serialize(self) -> dict[str, Any]:
        """Return the environment's part of a trajectory."""
        kind = f"{type(self).__module__}.{type(self).__name__}"
        return {"info": {"config": {"environment": self.config.model_dump(mode="json"), "environment_type": kind}}}


def _end_later(env: BaseEnvironment, after: str, owner: HermesEnvironment) -> None:
    timer = threading.Timer(float(after.rstrip("smhd")) * _SECONDS.get(after[-1], 1), env.cleanup)
    timer.name, timer.daemon = "hermes-plug-timeout", True
    weakref.finalize(owner, timer.cancel)
    timer.start()


def _failed(output: str, kind: str, why: str) -> dict[str, Any]:
    info = f"An error occurred while executing the command: {why}"
    extra = {"exception_type": kind, "exception": why}
    return {"output": output, "returncode": -1, "exception_info": info, "extra": extra}


def _check_submitted(output: str, exit_code: int) -> None:
    first, _, submission = output.lstrip().partition("\n")
    if first.strip() == _SUBMIT and exit_code == 0:
        extra = {"exit_status": "Submitted", "submission": submission}
        raise Submitted({"role": "exit", "content": submission, "extra": extra})
