"""Searches for processes of this machine without a shell."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from environments.local import processes
from environments.local.processes import ProcessSearch, brands_of, finds_none
from environments.loop import run
from environments.owner import MARKER_VARIABLE

NONE = range(0)


@contextmanager
def _process(marker: str) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "60"], env={**os.environ, MARKER_VARIABLE: marker}) as process:
        try:
            yield process
        finally:
            process.kill()


async def _all_of(searches: list[ProcessSearch]) -> list[bool]:
    return await asyncio.gather(*map(finds_none, searches))


@pytest.fixture
def scans(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Record the number of searches that each scan of /proc answers."""
    counts: list[int] = []
    scan = processes._scan

    def counted(searches: list[ProcessSearch]) -> None:
        counts.append(len(searches))
        scan(searches)

    monkeypatch.setattr(processes, "_scan", counted)
    return counts


def test_concurrent_searches_share_scans_and_have_their_own_results(scans: list[int]) -> None:
    with _process("there-1/") as process:
        searches = [ProcessSearch(f"there-{number}/", NONE) for number in range(50)]
        searches.append(ProcessSearch("there-1/", NONE, exclude=[process.pid]))
        answers = run(lambda _: _all_of(searches))
    assert [number for number, none in enumerate(answers) if not none] == [1]
    assert len(scans) <= 4


def test_a_scan_that_began_before_a_search_does_not_answer_it(
    monkeypatch: pytest.MonkeyPatch, scans: list[int]
) -> None:
    counted, begun = processes._scan, []

    def slow(searches: list[ProcessSearch]) -> None:
        counted(searches)
        begun.append(searches)
        time.sleep(0.2)

    monkeypatch.setattr(processes, "_scan", slow)

    async def search_later() -> tuple[bool, bool]:
        first = asyncio.ensure_future(finds_none(ProcessSearch("late-first/", NONE)))
        while not begun:
            await asyncio.sleep(0.01)
        with _process("late-second/"):
            second = await finds_none(ProcessSearch("late-second/", NONE))
        return await first, second

    assert run(lambda _: search_later()) == (True, False)


def test_a_cancelled_search_does_not_cancel_the_scan_of_others() -> None:
    async def cancel_one() -> bool:
        first = asyncio.ensure_future(finds_none(ProcessSearch("cancelled-1/", NONE)))
        others = asyncio.ensure_future(
            _all_of([ProcessSearch("cancelled-2/", NONE), ProcessSearch("cancelled-3/", NONE)])
        )
        await asyncio.sleep(0)
        first.cancel()
        return (await others) == [True, False]

    with _process("cancelled-3/"):
        assert run(lambda _: cancel_one())


def test_a_process_whose_first_thread_has_ended_is_found_by_its_brand() -> None:
    resource = pytest.importorskip("resource")
    program = "import ctypes, threading, time\nthreading.Thread(target=time.sleep, args=(60,)).start()\n"
    program += "print(flush=True)\nctypes.CDLL(None).pthread_exit(None)\n"
    brands = brands_of("1a2b3c4d-5-6-7")
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        try:
            resource.prlimit(process.pid, 10, (brands[5], brands[5]))
            assert process.stdout
            process.stdout.readline()
            deadline = time.monotonic() + 10
            while ") Z" not in Path(f"/proc/{process.pid}/stat").read_text() and time.monotonic() < deadline:
                time.sleep(0.01)
            assert not run(lambda _: finds_none(ProcessSearch("no-such/", brands)))
        finally:
            process.kill()
        process.wait()
        assert run(lambda _: finds_none(ProcessSearch("no-such/", brands)))


def test_all_processes_are_scanned_if_ids_have_wrapped_for_a_search() -> None:
    with _process("began-anew/"):
        last, now = processes._last_id(), time.monotonic()
        others = [ProcessSearch(f"in-a-row-{number}/", NONE, since=last, began=now) for number in range(2)]
        found = run(
            lambda _: _all_of([others[0], ProcessSearch("began-anew/", NONE, since=10**9, began=now), others[1]])
        )
    assert found == [True, False, True]


def test_process_ids_may_have_wrapped_after_a_second() -> None:
    with _process("long-since/"):
        last, now = processes._last_id(), time.monotonic()
        searches = [ProcessSearch("long-since/", NONE, since=last, began=now - 10)]
        assert run(lambda _: _all_of(searches)) == [False]
