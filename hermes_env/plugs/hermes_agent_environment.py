"""Our environments as environments of hermes-agent's tools, see docs/agents.md."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

from tools.environments.base import BaseEnvironment, touch_activity_if_due
from tools.interrupt import is_interrupted
from tools.tool_output_limits import get_max_bytes

from environments import create_environment

_ALL = 2**31 - 1
"""Bytes of output for the tools' own commands: unlimited, because the tools parse the output."""
_PERIOD = 0.05
"""Seconds between checks of hermes-agent's interrupt, a flag of the calling thread."""
_Answer = TypeVar("_Answer")


class HermesAgentEnvironment(BaseEnvironment):
    """An environment for hermes-agent's tools.

    The model's commands run in the session. The tools' own commands run outside the session, with its exports, as in
    hermes-agent.
    """

    def __init__(self, backend: str, cwd: str, timeout: int, settings: dict[str, object]) -> None:
        super().__init__(cwd, timeout)
        self._persistent = bool(settings.get("container_persistent"))
        self.ours = create_environment(backend, **{"cwd": "/", **settings})
        self.cwd = self.ours.execute(f"cd {self._quote_cwd_for_cd(cwd or '~')} 2>/dev/null || cd").cwd

    def execute(
        self,
        command: str,
        cwd: str = "",
        *,
        timeout: int | None = None,
        stdin_data: str | None = None,
        rewrite_compound_background: bool = True,
        bounded_capture: bool = False,
    ) -> dict[str, Any]:
        # `bounded_capture` marks a command of the model.
        command, password = self._prepare_command(command)
        stdin = None if password is None and stdin_data is None else (password or "") + (stdin_data or "")
        limit = timeout or self.timeout or math.inf
        how: dict[str, Any] = {"cwd": cwd or self.cwd, "timeout": limit, "stdin": stdin}
        if bounded_capture:
            run, how["max_output_bytes"] = self.ours.execute, get_max_bytes()
        else:
            run, how["max_output_bytes"] = partial(self.ours.execute_oneshot, session_env=True), _ALL
        result = interruptible(lambda end: run(command, interrupt=end, **how))
        if bounded_capture:
            self.cwd = result.cwd or self.cwd
        output = result.captured.with_count()
        if result.timed_out:
            output += f"\n[Command timed out after {limit}s]"
        elif result.interrupted:
            output += "\n[Command interrupted]"
        return {"output": output, "returncode": result.exit_code}

    def cleanup(self) -> None:
        with contextlib.suppress(AttributeError):  # `create_environment` failed
            self.ours.cleanup()


def interruptible(work: Callable[[threading.Event], _Answer]) -> _Answer:
    """Run blocking work, and interrupt it when hermes-agent interrupts the calling thread.

    Args:
        work: The work, run in a thread. Receives an event; the set event is the interrupt.

    Returns:
        The result of the work.

    Raises:
        BaseException: The error of the work.
    """
    end, done = threading.Event(), Future[_Answer]()

    def run() -> None:
        try:
            done.set_result(work(end))
        except BaseException as error:
            done.set_exception(error)

    worker = threading.Thread(target=run, name="hermes-plug", daemon=True)
    worker.start()
    activity = dict.fromkeys(("start", "last_touch"), time.monotonic())
    try:
        while worker.is_alive():
            worker.join(_PERIOD)
            touch_activity_if_due(activity, "running in the environment")
            if is_interrupted():
                end.set()
    except BaseException:
        end.set()
        raise
    return done.result()
