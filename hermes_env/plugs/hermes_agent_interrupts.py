"""What ends a call when hermes-agent interrupts it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from tools.environments.base import touch_activity_if_due
from tools.interrupt import is_interrupted

_LOOK = 0.05
"""Seconds between looks at whether hermes-agent wants an end: that is a flag of the calling thread."""
_Answer = TypeVar("_Answer")


def attended(work: Callable[[threading.Event], _Answer]) -> _Answer:
    """Do something in a thread, and have it end when hermes-agent interrupts this one.

    Args:
        work: What to do. It is given an event, which is set when it is to end.

    Returns:
        What it returns; what it raises is raised.
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
            worker.join(_LOOK)
            touch_activity_if_due(activity, "running in the environment")
            if is_interrupted():
                end.set()
    except BaseException:
        end.set()
        raise
    return done.result()
