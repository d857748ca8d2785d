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
    """The `environment:` section of its configuration. What is not named here is a setting of `create_environment`."""

    backend: str | None = None
    """A backend's name; None is the one that is configured."""
    cwd: str = ""
    """Where commands run; empty is this process's directory on this machine, and elsewhere the target's own."""
    env: dict[str, str] = Field(default_factory=dict)
    """Variables for every command."""
    forward_env: list[str] = Field(default_factory=list)
    """Names of variables of this process, if they are set here, for every command. `env` comes first."""
    timeout: int = 30
    """Seconds that a command may take."""
    interpreter: list[str] = Field(default_factory=list)
    """What runs a command, such as `["bash", "-lc"]`; empty is the target's shell, which reads no start-up file."""
    container_timeout: str = ""
    """How long the target may live, as `sleep` has it, such as `2h`; empty is as long as this object."""


class HermesEnvironment:
    """Gives mini-swe-agent's agents an environment of ours: each command is one of its own, and shares only files.

    Args:
        config_class: What checks the configuration.
        logger: What mini-swe-agent's own environments take; nothing is said to it.
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
        given = {"cwd": self.config.cwd} if self.config.cwd else {}  # Docker makes a directory that is not there
        self.env = create_environment(self.config.backend, **{**(self.config.model_extra or {}), **given})
        self.cleanup = weakref.finalize(self, self.env.cleanup)
        """Removes the target. Also called when nothing refers to this object any more, and at the process's end."""
        try:
            self.target = self.env.target
        except BaseException:
            self.cleanup()
            raise
        if self.config.container_timeout:
            _end_later(self.env, self.config.container_timeout, self)

    @property
    def container_id(self) -> str:
        """What the target's engine knows it by."""
        return self.target.id

    def execute(self, action: dict[str, Any], cwd: str = "", *, timeout: int | None = None) -> dict[str, Any]:
        """Run an action's command.

        Args:
            action: Its `command` is run.
            cwd: Where, in place of the configured directory.
            timeout: Seconds, in place of the configured ones.

        Returns:
            `output` with standard error in it, `returncode` and `exception_info`: what went wrong when it is -1.

        Raises:
            Submitted: The command says that the task is done.
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
        """Return the names for prompts: the configuration, the target's system as by `uname`, and the given ones.

        On this machine the variables of commands are among them, which keys of services are not.
        """
        told = self.env.execute_oneshot(_UNAME)
        system = dict(zip(_SYSTEM, told.output.splitlines(), strict=False)) if told.ok else {}
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
