"""An environment of ours in the form of hermes-agent's own ones, see docs/agents.md."""

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
"""Bytes of output that are kept for the tools' own commands, which the tools parse."""
_PERIOD = 0.05
"""Seconds between two looks at the interrupt of hermes-agent, which is a flag of the calling thread."""
_Answer = TypeVar("_Answer")


class HermesEnvironment(BaseEnvironment):
    """An environment that hermes-agent's tools work in.

    The commands of the model run in the session. The tools' own commands run beside it, with its exports, as there.
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
        """Run a command, and return its `output` and `returncode`. A command of the model has `bounded_capture`."""
        command, password = self._prepare_command(command)
        stdin = None if password is None and stdin_data is None else (password or "") + (stdin_data or "")
        limit = timeout or self.timeout or math.inf
        how: dict[str, Any] = {"cwd": cwd or self.cwd, "timeout": limit, "stdin": stdin}
        if bounded_capture:
            run, how["max_output_bytes"] = self.ours.execute, get_max_bytes()
        else:
            run, how["max_output_bytes"] = partial(self.ours.execute_oneshot, session_env=True), _ALL
        result = attended(lambda end: run(command, interrupt=end, **how))
        if bounded_capture:
            self.cwd = result.cwd or self.cwd
        output = result.captured.with_count()
        if result.timed_out:
            output += f"\n[Command timed out after {limit}s]"
        elif result.interrupted:
            output += "\n[Command interrupted]"
        return {"output": output, "returncode": result.exit_code}

    def cleanup(self) -> None:
        """End everything, and remove the target unless it is kept."""
        with contextlib.suppress(AttributeError):  # it could not even be made
            self.ours.cleanup()


def attended(work: Callable[[threading.Event], _Answer]) -> _Answer:
    """Run blocking work, and interrupt it when hermes-agent interrupts the calling thread.

    Args:
        work: The work, which runs in a thread. It is given an event, which is set when it has to end.

    Returns:
        The result of the work; its error is raised.
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
