"""Cancels file transfers half way, and records killed shells."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from environments import BaseEnvironment, CallCancelledError, CancelScope
from environments.progress import Progress
from environments.shell import run
from environments.shell.kill import ProcessTree


def call_half_way(env: BaseEnvironment, act: Callable[[], object]) -> None:
    """Call a function once, when a part of a transfer is done."""
    is_done = threading.Event()

    def look(progress: Progress) -> None:
        if progress.done and progress.done != progress.total and not is_done.is_set():
            is_done.set()
            act()

    env.progress.callback = look


def cancel_half_way(env: BaseEnvironment, transfer: Callable[[], object]) -> None:
    """Cancel a transfer when a part of it is done."""
    scope = CancelScope()
    call_half_way(env, scope.cancel)
    with scope.active(), pytest.raises(CallCancelledError):
        transfer()


def record_killed_shells(monkeypatch: pytest.MonkeyPatch) -> list[ProcessTree]:
    """Return a list that is filled with killed shells: shells that did not leave an ended command."""
    killed: list[ProcessTree] = []
    kill_shell = ProcessTree.kill_shell

    async def noted(tree: ProcessTree) -> None:
        killed.append(tree)
        await kill_shell(tree)

    monkeypatch.setattr(ProcessTree, "kill_shell", noted)
    monkeypatch.setattr(run, "LEAVE_LIMIT", 10.0)  # for a loaded machine
    return killed
