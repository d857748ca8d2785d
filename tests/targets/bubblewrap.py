"""The sandbox of a bubblewrap environment, from outside."""

from __future__ import annotations

import os
import signal

from environments import BaseEnvironment


def first_process(env: BaseEnvironment) -> int:
    """Return the first process of an environment's sandbox: its id on the host."""
    pid: int = env._sandbox.pid  # type: ignore[attr-defined]
    return pid


def end_sandbox(env: BaseEnvironment) -> None:
    """Kill the sandbox, as the kernel's out-of-memory killer does."""
    os.kill(first_process(env), signal.SIGKILL)
