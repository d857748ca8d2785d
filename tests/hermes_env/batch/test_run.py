"""Tasks in real environments, on threads."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
from pathlib import Path

import pytest
from targets.processes import all_gone, processes_with
from targets.run_record import RunRecord

from environments import BaseEnvironment, CancelScope, EnvironmentStartError, SettingsError
from environments.conformance.check import wait_until
from environments.loop import WorkerThread
from hermes_env.batch import Result, Task, read_results, run_batch


def results_of(*tasks: dict[str, object], **arguments: object) -> dict[str, Result]:
    settings = arguments.pop("settings", "local")
    return {result.id: result for result in run_batch(tasks, settings, workers=4, **arguments).results}  # type: ignore[arg-type]


def test_results_of_commands_and_scripts(tmp_path: Path) -> None:
    found = results_of(
        {"id": "command", "command": "echo out; echo err >&2"},
        {"id": "code", "command": "exit 3"},
        {"id": "script", "script": "from hermes_tools import terminal\nprint(terminal('echo hi')['output'])"},
        {"id": "broken", "script": "1/0"},
        {"id": "limit", "script": "from hermes_tools import terminal\nfor n in range(51): terminal(':')"},
        {"id": "files", "command": "cat a/t; wc -c < b", "files": {"a/t": "text\n", "b": {"base64": "AP8="}}},
        settings={"backend": "local", "cwd": str(tmp_path)},
    )
    assert {name: (result.status, result.exit_code) for name, result in found.items()} == {
        "command": ("success", 0),
        "code": ("error", 3),
        "script": ("success", 0),
        "broken": ("error", 1),
        "limit": ("error", 1),
        "files": ("success", 0),
    }, found
    assert found["command"].output == "out\nerr\n"
    assert found["code"].error == "exit code 3"
    assert found["script"].output == "hi\n\n"
    assert "ZeroDivisionError" in found["broken"].output
    limit = "The limit of 50 tool calls (max_tool_calls) was reached: 1 tool call was refused."
    assert json.loads(found["limit"].to_line())["limit"] == limit
    assert "limit" not in found["script"].data
    assert found["files"].output == "text\n2\n"


def test_each_line_of_a_record_has_its_task(tmp_path: Path) -> None:
    code = "from hermes_tools import terminal\nterminal('echo deep')"
    tasks = [{"id": name, "script": code, "files": {"a": "b"}} for name in ("t0", 1, "1")]
    results_of(*tasks, settings={"backend": "local", "cwd": str(tmp_path), "record": str(tmp_path / "record")}, uses=2)
    record = RunRecord(tmp_path / "record")
    worked = [each for each in record.all if each["kind"] != "start"]
    kinds = ["command", "script", "tool_call", "transfer"]
    found = {
        task: sorted(each["kind"] for each in worked if each.begin["batch_task"] == task) for task in ("t0", 1, "1")
    }
    assert found == dict.fromkeys(("t0", 1, "1"), kinds)
    assert all(each.end["batch_task"] == each.begin["batch_task"] for each in worked)
    assert not [each for each in record.kind("start") if each.get("batch_task")]


def test_a_record_that_cannot_be_written_is_refused_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "other")
    with pytest.raises(SettingsError, match=r"the record .*link cannot be written: it is a link; give the path of"):
        run_batch([{"id": 1, "command": "true"}], "local", out=tmp_path / "out", record=str(tmp_path / "link"))
    assert [path.name for path in tmp_path.iterdir()] == ["link"]


def test_commands_take_no_thread_each(nap: str) -> None:
    interrupt = threading.Event()
    tasks = [{"id": number, "command": f"sleep {nap}"} for number in range(12)]
    before = busy_threads()
    is_low: list[bool] = []

    def count() -> None:
        if wait_until(lambda: len(processes_with(nap)) >= 12, 60):  # loop, driver, reader and this thread
            is_low.append(wait_until(lambda: busy_threads() <= before + 4, 10))
        interrupt.set()

    thread = threading.Thread(target=count)
    thread.start()
    assert run_batch(tasks, "local", workers=12, interrupt=interrupt).counts == {"interrupted": 12}
    thread.join()
    assert is_low == [True]


def busy_threads() -> int:
    return sum(not (isinstance(thread, WorkerThread) and thread.is_idle) for thread in threading.enumerate())


def test_a_task_ends_at_its_own_time_limit_or_at_that_of_the_batch(nap: str) -> None:
    found = results_of(
        {"id": "own", "command": f"sleep {nap}", "timeout": 0.5},
        {"id": "batch", "script": f"import time; time.sleep({nap})"},
        timeout=1,
    )
    assert {name: (result.status, result.exit_code) for name, result in found.items()} == {
        "own": ("timeout", 124),
        "batch": ("timeout", 124),
    }
    assert all_gone(nap)


def test_python_code_works_on_tasks_and_returns_what_it_likes() -> None:
    def work(env: BaseEnvironment, task: Task) -> object:
        ways = {
            "text": lambda: f"text {task.data['n']}",
            "nothing": lambda: None,
            "fields": lambda: {"output": "o", "reward": 0.5, "exit_code": 2},
            "command": lambda: env.execute("exit 4"),
            "raises": lambda: 1 / 0,
            "exits": lambda: sys.exit(3),
            "odd": lambda: {"output": "o", "thing": object()},
            "wrong": lambda: 3,
        }
        return ways[task.id]()

    names = ("text", "nothing", "fields", "command", "raises", "exits", "odd", "wrong")
    found = results_of(*({"id": name, "n": 7} for name in names), work=work)
    assert found["text"].output == "text 7"
    assert found["nothing"].status == "success"
    assert (found["fields"].status, found["fields"].data) == ("error", {"reward": 0.5})
    assert (found["command"].status, found["command"].exit_code) == ("error", 4)
    assert found["raises"].error == "ZeroDivisionError: division by zero"
    assert "in work" in found["raises"].output
    assert found["exits"].status == "error"
    assert "cannot be written as JSON" in (found["odd"].error or "")
    assert "an object of type int" in (found["wrong"].error or "")


def test_an_interrupt_ends_the_wait_for_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there, here = os.pipe()
    interrupt = threading.Event()
    with os.fdopen(there) as source, os.fdopen(here, "w") as sink:
        monkeypatch.setattr(sys, "stdin", source)
        sink.write('{"id": "a", "command": "true"}\n')
        sink.flush()
        threading.Timer(0.1, interrupt.set).start()
        summary = run_batch("-", "local", interrupt=interrupt, out=tmp_path / "out")
    assert (summary.counts, summary.left, summary.stopped) == ({}, None, "interrupted")
    assert not (tmp_path / "out").exists()


def test_python_code_may_be_awaited_and_ends_at_its_time_limit(nap: str) -> None:
    async def work(env: BaseEnvironment, task: Task) -> str:
        await asyncio.sleep(0)
        return env.execute(task.command or "").output

    found = results_of(
        {"id": "a", "command": "echo hi"}, {"id": "b", "command": f"sleep {nap}", "timeout": 0.5}, work=work
    )
    assert (found["a"].status, found["a"].output) == ("success", "hi\n")
    assert found["b"].status == "timeout"
    assert all_gone(nap)


def test_a_base_exception_ends_its_task_alone() -> None:
    errors = {error.__name__: error for error in (KeyboardInterrupt, GeneratorExit, asyncio.CancelledError)}

    def work(env: BaseEnvironment, task: Task) -> None:
        if task.id in errors:
            raise errors[task.id]("mine")

    found = results_of(*({"id": name} for name in (*errors, "fine")), work=work)
    assert {name: result.error for name, result in found.items()} == {
        **{name: f"{name}: mine" for name in errors},
        "fine": None,
    }


def test_python_code_ends_at_its_time_limit_even_if_it_returns_a_value(nap: str) -> None:
    def work(env: BaseEnvironment, task: Task) -> str:
        env.execute(f"sleep {nap}")
        return "went on"

    found = results_of({"id": "a"}, work=work, timeout=0.5)
    assert (found["a"].status, found["a"].exit_code, found["a"].output) == ("timeout", 124, "went on")
    assert all_gone(nap)


def test_tasks_share_an_environment_only_if_that_is_asked_for() -> None:
    def work(env: BaseEnvironment, task: Task) -> str:
        used.append(env)
        return ""

    tasks = [{"id": str(number)} for number in range(4)]
    used: list[BaseEnvironment] = []
    assert run_batch(tasks, "local", work, workers=1).ok
    assert len({*map(id, used)}) == 4
    used.clear()
    assert run_batch(tasks, "local", work, workers=1, uses=2).ok
    assert [used[0] is used[1], used[1] is used[2], used[2] is used[3]] == [True, False, True]


def test_a_task_with_settings_of_its_own_runs_there(tmp_path: Path) -> None:
    found = results_of(
        {"id": "here", "command": "pwd"},
        {"id": "there", "command": "pwd", "settings": {"cwd": "/"}},
        {"id": "nowhere", "command": "pwd", "settings": {"cwd": str(tmp_path / "missing")}},
        settings={"backend": "local", "cwd": str(tmp_path)},
    )
    assert found["here"].output == f"{tmp_path}\n"
    assert found["there"].output == "/\n"
    assert found["nowhere"].status == "error"
    assert "missing" in (found["nowhere"].error or "")


def test_an_environment_that_can_never_start_ends_the_batch(tmp_path: Path) -> None:
    settings = {"backend": "local", "cwd": str(tmp_path / "missing")}
    tasks = [{"id": str(number), "command": "true"} for number in range(100)]
    with pytest.raises(EnvironmentStartError, match="the batch is aborted, as no environment starts"):
        run_batch(tasks, settings, out=tmp_path / "out")
    assert (tmp_path / "out").read_text() == ""


@pytest.mark.parametrize("how", ["event", "scope"])
def test_an_interrupt_ends_what_runs_in_targets(how: str, nap: str) -> None:
    interrupt, scope = threading.Event(), CancelScope()
    tasks = [{"id": str(number), "command": f"echo begun; sleep {nap}"} for number in range(5)]

    def end_when_all_run() -> None:
        assert wait_until(lambda: len(processes_with(nap)) >= 3, 60)
        interrupt.set() if how == "event" else scope.cancel()

    thread = threading.Thread(target=end_when_all_run)
    thread.start()
    with scope.active():
        summary = run_batch(tasks, "local", workers=3, interrupt=interrupt)
    thread.join()
    assert (summary.counts, summary.left, summary.stopped) == ({"interrupted": 3}, 2, "interrupted")
    assert {(result.output, result.exit_code) for result in summary.results} == {("begun\n", 130)}
    assert all_gone(nap)


def test_control_c_ends_what_runs_writes_it_down_and_is_raised(tmp_path: Path, nap: str) -> None:
    main = threading.main_thread().ident or 0

    def press_when_it_runs() -> None:
        assert wait_until(lambda: processes_with(nap), 60)
        signal.pthread_kill(main, signal.SIGINT)

    thread = threading.Thread(target=press_when_it_runs)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        run_batch([{"id": "a", "command": f"sleep {nap}"}], "local", out=tmp_path / "out")
    thread.join()
    assert [result.status for result in read_results(tmp_path / "out")] == ["interrupted"]
    assert all_gone(nap)
