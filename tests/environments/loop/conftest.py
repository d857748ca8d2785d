"""A loop thread for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from targets.loop_calls import end, right, unfinished_tasks

from environments import loop
from environments.loop import LoopThread


@pytest.fixture(autouse=True)
def thread() -> Iterator[LoopThread]:
    """Start a loop thread for the test. At the end, no task may be left on it."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(loop, "_current", None)
        assert loop.run(right) == "right"
        made = loop.current()
        yield made
        left = loop.run(lambda _: unfinished_tasks())
    end(made)
    assert left == []
