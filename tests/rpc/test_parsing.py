from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rpc.signatures import parsed


@pytest.fixture
def frequent_thread_switches() -> Iterator[None]:
    """Runs the garbage collector all the time, with a switch to other threads each time."""
    thresholds = gc.get_threshold()

    def switch_thread(phase: str, info: dict[str, int]) -> None:
        time.sleep(0)

    gc.callbacks.append(switch_thread)
    gc.set_threshold(20)
    yield
    gc.set_threshold(*thresholds)
    gc.callbacks.remove(switch_thread)


@pytest.mark.usefixtures("frequent_thread_switches")
def test_threads_parse_side_by_side() -> None:
    source = Path(__file__).read_text()
    with ThreadPoolExecutor(4) as threads:
        for done in [threads.submit(parsed, source) for _ in range(8)]:
            done.result(60)
