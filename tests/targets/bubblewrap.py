"""The sandbox of an environment, looked at from outside."""

from __future__ import annotations

import os
import signal

from environments import BaseEnvironment


def first_process(env: BaseEnvironment) -> int:
    """Return the process id, here, of the first process in an environment's sandbox."""
    pid: int = env._sandbox.pid  # type: ignore[attr-defined]
    return pid


def end_sandbox(env: BaseEnvironment) -> None:
    """Kill it, as the kernel does when memory runs out."""
    os.kill(first_process(env), signal.SIGKILL)
