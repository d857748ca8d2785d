"""Memory during large transfers: output, a directory, and input."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from targets.local_shells import WAYS, local

MOST = 60_000_000
"""The allowed growth of memory, in bytes."""


@contextmanager
def check_memory_growth() -> Iterator[None]:
    process = psutil.Process()
    before = peak = process.memory_info().rss
    over = threading.Event()

    def watch() -> None:
        nonlocal peak
        while not over.wait(0.01):
            peak = max(peak, process.memory_info().rss)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
    assert peak - before < MOST


def test_a_gigabyte_of_output_takes_no_more_memory_than_the_cap(tmp_path: Path) -> None:
    with local(tmp_path) as env:
        env.execute("true")
        with check_memory_growth():
            result = env.execute("head -c 1000000000 /dev/zero", timeout=100)
    assert len(result.output) + result.omitted_bytes == 1_000_000_000


@pytest.mark.parametrize("make", WAYS, ids=lambda make: make.__name__)
def test_a_large_directory_takes_little_memory(make, tmp_path: Path) -> None:
    source, here = tmp_path / "source", tmp_path / "here"
    source.mkdir()
    with (source / "file").open("wb") as file:
        file.truncate(150_000_000)
    with make(tmp_path) as env:
        env.execute("true")
        with check_memory_growth():
            env.put_dir(source, str(tmp_path / "there"))
            shutil.rmtree(tmp_path / "there")
            env.get_dir(str(source), here)
    assert (here / "file").stat().st_size == 150_000_000
    shutil.rmtree(here)
