"""Claims shared by several environments of a process."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from environments import claim as claims
from environments.claim import Claim, SharedClaim
from environments.errors import EnvironmentStartError
from environments.loop import run, spawn
from environments.starting import Start


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))


def others_or(new: str) -> Callable[[str | None], str]:
    return lambda others: others or new


def test_the_first_begins_the_target_and_the_last_ends_it() -> None:
    first, second = SharedClaim[str]("thing"), SharedClaim[str]("thing")
    ended: list[str] = []
    assert first.join(others_or("a")) == "a"
    assert second.join(others_or("b")) == "a"
    first.leave(ended.append)
    first.leave(ended.append)
    assert ended == []
    assert not Claim("thing").acquire()
    second.leave(ended.append)
    assert ended == ["a"]
    assert claims._all == {}
    claim = Claim("thing")
    assert claim.acquire()
    assert SharedClaim[str]("thing").join(others_or("c")) is None, "another process has the claim"
    claim.release()


def test_a_second_join_may_replace_the_target_and_the_last_user_ends_it() -> None:
    first, second = SharedClaim[str]("thing"), SharedClaim[str]("thing")
    ended: list[str] = []
    first.join(others_or("lost"))
    second.join(others_or("lost"))
    assert first.join(lambda _: "new") == "new"
    second.leave(ended.append)
    first.leave(ended.append)
    assert ended == ["new"]


def test_of_many_users_at_once_one_begins_and_one_ends_the_target() -> None:
    begun: list[str] = []
    ended: list[str] = []

    def begin(others: str | None) -> str:
        if others is None:
            begun.append("target")
        return others or "target"

    def use(_: int) -> str | None:
        claim = SharedClaim[str]("thing")
        try:
            return claim.join(begin)
        finally:
            together.wait(60)
            claim.leave(ended.append)

    together = threading.Barrier(16)
    with ThreadPoolExecutor(16) as threads:
        assert set(threads.map(use, range(16))) == {"target"}
    assert (begun, ended, claims._all) == (["target"], ["target"], {})


def test_a_failed_begin_or_end_releases_the_claim() -> None:
    def fail(_: object) -> str:
        raise EnvironmentStartError("not today")

    claim = SharedClaim[str]("thing")
    with pytest.raises(EnvironmentStartError):
        claim.join(fail)
    assert claims._all == {}
    claim.join(others_or("a"))
    with pytest.raises(EnvironmentStartError):
        claim.leave(fail)
    assert claims._all == {}
    again = Claim("thing")
    assert again.acquire()
    again.release()


def test_a_failure_of_one_user_leaves_the_claim_to_the_others() -> None:
    def fail(_: object) -> str:
        raise EnvironmentStartError("not today")

    first, second = SharedClaim[str]("thing"), SharedClaim[str]("thing")
    first.join(others_or("a"))
    with pytest.raises(EnvironmentStartError):
        second.join(fail)
    assert not Claim("thing").acquire()
    ended: list[str] = []
    second.leave(ended.append)
    assert ended == []
    first.leave(ended.append)
    assert ended == ["a"]


def test_a_start_that_waits_for_another_start_can_be_stopped() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def slowly(_: str | None) -> str:
        begun.set()
        assert go_on.wait(60)
        return "a"

    first, second = SharedClaim[str]("thing"), SharedClaim[str]("thing")
    start = Start("docker")

    def wait() -> None:
        with start.active():
            second.join(others_or("b"))

    with ThreadPoolExecutor() as threads:
        slow = threads.submit(first.join, slowly)
        assert begun.wait(60)
        waiting = threads.submit(wait)
        start.mark_stopped("it was interrupted")
        with pytest.raises(EnvironmentStartError, match="it was interrupted"):
            waiting.result(60)
        go_on.set()
        assert slow.result(60) == "a"
    first.leave(lambda _: None)
    assert claims._all == {}


def test_a_forked_child_has_no_part_in_a_claim() -> None:
    claim = SharedClaim[str]("thing")
    claim.join(others_or("a"))
    child = os.fork()
    if child == 0:
        os._exit(0 if SharedClaim[str]("thing").join(others_or("b")) is None else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    claim.leave(lambda _: None)


# On the loop thread.


async def begun(others: str | None) -> str:
    return others or "target"


def test_coroutines_and_threads_share_one_claim() -> None:
    first, second = SharedClaim[str]("thing"), SharedClaim[str]("thing")
    ended: list[str] = []

    async def end(target: str) -> None:
        ended.append(target)

    assert run(lambda _: first.join_on_loop(begun)) == "target"
    assert second.join(others_or("b")) == "target"
    run(lambda _: first.leave_on_loop(end))
    run(lambda _: first.leave_on_loop(end))
    assert not ended
    run(lambda _: second.leave_on_loop(end))
    assert (ended, claims._all) == (["target"], {})
    claim = Claim("thing")
    assert claim.acquire()
    assert run(lambda _: first.join_on_loop(begun)) is None, "another process has the claim"
    claim.release()


def test_a_task_that_is_cancelled_while_it_begins_or_waits_releases_the_claim() -> None:
    async def for_ever(_: str | None) -> str:
        await asyncio.sleep(1000)
        return "never"

    async def fail(_: str) -> None:
        raise EnvironmentStartError("not today")

    async def work(_: object) -> None:
        beginning = spawn(SharedClaim[str]("thing").join_on_loop(for_ever))
        waiting = spawn(SharedClaim[str]("thing").join_on_loop(for_ever))
        await asyncio.sleep(0.01)
        for task in (waiting, beginning):
            task.cancel()
            await asyncio.wait((task,))
            assert task.cancelled()
        assert claims._all == {}
        claim = SharedClaim[str]("thing")
        assert await claim.join_on_loop(begun) == "target"
        with pytest.raises(EnvironmentStartError):
            await claim.leave_on_loop(fail)
        assert claims._all == {}

    run(work)
    again = Claim("thing")
    assert again.acquire()
    again.release()
