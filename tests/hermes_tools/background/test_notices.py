from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import hermes_tools.background.notices as module
from environments import create_environment
from environments.base import BaseEnvironment
from environments.conformance.check import wait_until
from environments.process import Process
from hermes_tools import on_notice, take_notices
from hermes_tools.background.notices import MAX_COUNTED, MAX_UNDELIVERED, Notice, NoticeBox
from hermes_tools.process import process
from hermes_tools.terminal import terminal


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "INTERVAL", 0.0)


@pytest.fixture
def box() -> Iterator[NoticeBox]:
    made = NoticeBox()
    yield made
    made.close()


def _exit(process_id: str) -> Notice:
    return {"process_id": process_id, "kind": "exit", "command": "true", "status": "exited", "exit_code": 0}


def _started(env: BaseEnvironment, command: str, **how: Any) -> str:
    return terminal(env, command, background=True, **how)["process_id"]


def test_an_exit_notice_comes_once_with_the_next_result(env: BaseEnvironment) -> None:
    started = _started(env, "exit 3", notify_on_exit=True)
    waited = process(env, "wait", started, timeout=60)
    assert waited["notices"] == [
        {"process_id": started, "kind": "exit", "command": "exit 3", "status": "exited", "exit_code": 3}
    ]
    assert "notices" not in terminal(env, "true")
    assert take_notices(env) == []


def test_a_flood_of_matches_is_one_notice_with_a_count(env: BaseEnvironment) -> None:
    started = _started(env, "for n in $(seq 1 500); do echo hit $n; done", watch=["hit", "absent"])
    [notice] = process(env, "wait", started, timeout=60)["notices"]
    assert notice == {
        "process_id": started,
        "kind": "watch",
        "command": "for n in $(seq 1 500); do echo hit $n; done",
        "pattern": "hit",
        "text": "hit 1",
        "count": 500,
    }


def test_a_notice_holds_no_secret_nor_a_part_of_one(env: BaseEnvironment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_API_KEY", "sk-0123456789abcdef")
    half = "s''k-01234"  # the command line itself does not contain it
    _started(env, f"echo the {half}56789abcdef; printf 'my '{half}; read x", watch=["the", "my"])
    assert wait_until(lambda: len(env.attachments.get(NoticeBox)._undelivered) == 2)
    assert "sk-0" not in str(take_notices(env))


def test_with_a_callback_results_hold_no_notices(env: BaseEnvironment) -> None:
    told: queue.Queue[Notice] = queue.Queue()
    stop = on_notice(env, told.put)
    started = _started(env, "echo hit; exit 3", notify_on_exit=True, watch=["hit"])
    assert "notices" not in process(env, "wait", started, timeout=60)
    assert [told.get(timeout=60)["kind"], told.get(timeout=60)["kind"]] == ["watch", "exit"]
    stop()
    started = _started(env, "true", notify_on_exit=True)
    assert process(env, "wait", started, timeout=60)["notices"][0]["process_id"] == started
    assert told.empty()


def test_a_callback_may_end_the_process_and_the_environment(tmp_path: Path) -> None:
    done = threading.Event()
    with create_environment("local", cwd=str(tmp_path)) as env:

        def end(notice: Notice) -> None:
            assert process(env, "kill", notice["process_id"])["status"] == "killed"
            env.cleanup()
            done.set()

        on_notice(env, end)
        _started(env, "echo hit; sleep 1000", watch=["hit"])
        assert done.wait(60)


def test_a_callback_gets_no_notice_before_its_process_is_known(
    env: BaseEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    states: queue.Queue[str] = queue.Queue()
    on_notice(env, lambda notice: states.put(process(env, "poll", notice["process_id"]).get("status", "unknown")))
    start = env.start

    def slow(*args: Any, **kwargs: Any) -> Process:
        begun = start(*args, **kwargs)
        with contextlib.suppress(queue.Empty):
            states.put(states.get(timeout=0.2))
        return begun

    monkeypatch.setattr(env, "start", slow)
    _started(env, "echo hit; sleep 1000", watch=["hit"])
    assert states.get(timeout=60) == "running"


def test_a_callback_that_fails_is_logged_and_called_again(box: NoticeBox, caplog: pytest.LogCaptureFixture) -> None:
    told: queue.Queue[str] = queue.Queue()

    def fail(notice: Notice) -> None:
        told.put(notice["process_id"])
        raise RuntimeError("of the loop")

    box.add_callback(fail)
    box.put(_exit("one"))
    assert told.get(timeout=60) == "one"
    box.put(_exit("two"))
    assert told.get(timeout=60) == "two"
    assert "of the loop" in caplog.text


def test_no_thread_outlives_the_environment(tmp_path: Path) -> None:
    with create_environment("local", cwd=str(tmp_path)) as env:
        on_notice(env, lambda notice: None)
        process(env, "wait", _started(env, "true", notify_on_exit=True), timeout=60)
        assert any(thread.name == "hermes-notices" for thread in threading.enumerate())
        box = env.attachments.get(NoticeBox)
        thread = box._thread
    assert thread
    assert not thread.is_alive()
    on_notice(env, lambda notice: None)
    assert env.attachments.get(NoticeBox)._thread is None


def test_waiting_notices_are_bounded(box: NoticeBox) -> None:
    for number in range(MAX_UNDELIVERED + 10):
        box.put(_exit(str(number)))
    assert [notice["process_id"] for notice in box.drain()] == [str(n) for n in range(10, MAX_UNDELIVERED + 10)]


def test_the_count_of_matches_is_bounded(box: NoticeBox) -> None:
    assert not box.add_matches("one", "x", 1)
    box.put({"process_id": "one", "kind": "watch", "command": "", "pattern": "x", "text": "x", "count": 5})
    assert not box.is_full("one", "x")
    assert box.add_matches("one", "x", MAX_COUNTED)
    assert box.is_full("one", "x")
    [notice] = box.drain()
    assert notice["count"] == MAX_COUNTED
    assert not box.is_full("one", "x")
