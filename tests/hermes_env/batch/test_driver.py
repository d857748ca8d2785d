"""The results of tasks, with scripted results of the engine."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from targets.scripted_engine import Act, ScriptedEngine

from environments import EnvironmentStartError, TerminalError
from environments.conformance.check import wait_until
from hermes_env.batch import Result, Summary, Task, read_results, run_batch
from hermes_env.batch.engine import Done
from hermes_env.batch.journal import BEGUN


def tasks(number: int, **more: object) -> list[dict[str, object]]:
    return [{"id": str(count), "command": "true", **more} for count in range(number)]


def succeed(task: Task, _: int) -> Result:
    return Result(task.id, "success")


class BatchThread:
    """A batch in a thread. Its engine holds each task until `end`."""

    def __init__(
        self, work: object, act: Act | None = None, engine: ScriptedEngine | None = None, **arguments: object
    ) -> None:
        self.engine = engine or ScriptedEngine(act or (lambda *_: None))
        self.interrupt = threading.Event()
        self.summary: Summary | None = None
        self._thread = threading.Thread(target=self._run, args=(work,), kwargs=arguments)
        self._thread.start()

    def _run(self, work: object, **arguments: object) -> None:
        self.summary = run_batch(
            work,  # type: ignore[arg-type]
            "local",
            engine=lambda _: self.engine,
            interrupt=self.interrupt,
            **arguments,  # type: ignore[arg-type]
        )

    def waits_for(self, *names: str) -> bool:
        return wait_until(lambda: sorted(self.engine.held) == sorted(names), 30)

    def join(self) -> Summary:
        self._thread.join(60)
        assert self.summary
        return self.summary


@pytest.fixture
def start() -> Iterator[Callable[..., BatchThread]]:
    with contextlib.ExitStack() as stack:

        def begin(*words: object, **arguments: object) -> BatchThread:
            started = BatchThread(*words, **arguments)  # type: ignore[arg-type]
            stack.callback(started.interrupt.set)
            return started

        yield begin


def test_each_of_many_tasks_has_one_result(tmp_path: Path) -> None:
    engine = ScriptedEngine(succeed)
    summary = run_batch(tasks(200), "local", workers=10**15, engine=lambda _: engine, out=tmp_path / "out")
    assert (summary.counts, summary.left, summary.ok) == ({"success": 200}, 0, True)
    assert sorted(result.id for result in read_results(tmp_path / "out")) == sorted(map(str, range(200)))
    assert len(engine.started) == 200
    assert engine.closed


def test_a_task_is_noted_as_begun_before_it_begins(tmp_path: Path) -> None:
    def act(task: Task, _: int) -> Result:
        assert f'{{"begun":"{task.id}"}}\n' in (tmp_path / f"out{BEGUN}").read_text()
        return Result(task.id, "success")

    assert run_batch(tasks(20), "local", engine=lambda _: ScriptedEngine(act), out=tmp_path / "out").ok


class ReportingEngine(ScriptedEngine):
    """An engine whose environments are ready on the test's demand."""

    def __init__(self, act: Act) -> None:
        super().__init__(act)
        self.begins: Callable[..., object] = lambda *_: None
        self.waiting: dict[str, Callable[[], None]] = {}
        self.refused: list[str] = []

    def start(self, worker: int, task: Task, done: Done) -> None:
        def go(may_begin: bool) -> None:
            if may_begin:
                ScriptedEngine.start(self, worker, task, done)
            else:
                self.refused.append(task.id)
                done(worker, Result(task.id, "interrupted", began=False))

        self.waiting[task.id] = lambda: self.begins(task, go)

    def interrupt(self) -> None:
        super().interrupt()
        for ready in self.waiting.values():
            ready()


def test_a_task_that_waits_for_its_environment_has_not_begun(start, tmp_path: Path) -> None:
    engine = ReportingEngine(lambda *_: None)
    batch = start(tasks(3), workers=2, out=tmp_path / "out", engine=engine)
    assert wait_until(lambda: len(engine.waiting) == 2, 30)
    assert (tmp_path / f"out{BEGUN}").read_text() == ""
    engine.waiting.pop("1")()
    assert batch.waits_for("1")
    assert (tmp_path / f"out{BEGUN}").read_text() == '{"begun":"1"}\n'
    batch.interrupt.set()
    assert (batch.join().counts, engine.refused) == ({"interrupted": 1}, ["0"])
    assert [result.id for result in read_results(tmp_path / "out")] == ["1"]


def test_no_more_tasks_run_than_there_are_workers(start) -> None:
    batch = start(tasks(4), workers=2)
    assert batch.waits_for("0", "1")
    batch.engine.end("1")
    assert batch.waits_for("0", "2")
    for name in ("0", "2"):
        batch.engine.end(name)
    assert batch.waits_for("3")
    batch.engine.end("3")
    assert batch.join().ok
    assert batch.engine.most == 2


def test_a_limit_of_a_place_holds_and_keeps_no_others_waiting(start) -> None:
    there = [
        {"id": f"ssh{count}", "command": "true", "settings": {"backend": "ssh", "host": "h", "user": "u"}}
        for count in range(3)
    ]
    batch = start([*there, *tasks(2)], workers=4, limits={"ssh:h": 1, "docker": 1})
    assert batch.waits_for("ssh0", "0", "1")
    batch.engine.end("0")
    assert batch.waits_for("ssh0", "1")
    batch.engine.end("ssh0")
    assert batch.waits_for("ssh1", "1")
    batch.interrupt.set()
    assert batch.join().left == 1


def test_tasks_of_a_generator_are_read_as_there_is_need_of_them(start) -> None:
    made = []

    def endless() -> Iterator[Task]:
        while True:
            made.append(Task(str(len(made)), "true"))
            yield made[-1]

    batch = start(endless(), workers=2)
    assert batch.waits_for("0", "1")
    batch.interrupt.set()
    summary = batch.join()
    assert (summary.stopped, summary.left) == ("interrupted", None)
    assert len(made) < 100


def test_a_slow_generator_keeps_no_result_waiting(start, tmp_path: Path) -> None:
    more = threading.Event()

    def slow() -> Iterator[Task]:
        yield Task("first", "true")
        more.wait(60)
        yield Task("second", "true")

    batch = start(slow(), act=succeed, out=tmp_path / "out")
    assert wait_until(lambda: (tmp_path / "out").exists() and len(list(read_results(tmp_path / "out"))) == 1, 30)
    more.set()
    assert batch.join().counts == {"success": 2}


def test_a_generators_error_is_raised_after_the_earlier_tasks_have_ended() -> None:
    told: list[Result] = []

    def broken() -> Iterator[Task]:
        yield Task("first", "true")
        raise LookupError("no more")

    with pytest.raises(LookupError, match="no more"):
        run_batch(broken(), "local", engine=lambda _: ScriptedEngine(succeed), on_result=told.append)
    assert [result.id for result in told] == ["first"]


def test_an_interrupt_ends_what_runs_and_leaves_the_rest_for_another_run(start, tmp_path: Path) -> None:
    batch = start(tasks(5), workers=2, out=tmp_path / "out")
    assert batch.waits_for("0", "1")
    batch.interrupt.set()
    summary = batch.join()
    assert (summary.counts, summary.left, summary.stopped) == ({"interrupted": 2}, 3, "interrupted")
    assert "not begun: 3 (run the same again to run them)" in str(summary)
    assert not (tmp_path / f"out{BEGUN}").exists()
    engine = ScriptedEngine(succeed)
    again = run_batch(tasks(5), "local", engine=lambda _: engine, out=tmp_path / "out")
    assert (again.counts, again.earlier, again.ok) == ({"success": 3}, {"interrupted": 2}, False)
    last = run_batch(tasks(5), "local", engine=lambda _: engine, out=tmp_path / "out", retry="always")
    assert (last.counts, last.earlier, last.ok) == ({"success": 2}, {"success": 3}, True)


def test_the_budget_ends_the_batch(tmp_path: Path) -> None:
    engine = ScriptedEngine(lambda *_: None)
    summary = run_batch(tasks(3), "local", workers=1, engine=lambda _: engine, budget=0.1, out=tmp_path / "out")
    assert (summary.counts, summary.left, summary.stopped) == ({"interrupted": 1}, 2, "budget")
    assert "its time budget was over; not begun: 2" in str(summary)


def test_the_budget_counts_from_the_begin_of_the_first_task(start, tmp_path: Path) -> None:
    engine = ReportingEngine(lambda *_: None)
    batch = start(tasks(3), workers=2, budget=0.3, out=tmp_path / "out", engine=engine)
    assert wait_until(lambda: len(engine.waiting) == 2, 30)
    time.sleep(0.6)  # like a slow start of the engine
    assert batch.summary is None
    engine.waiting.pop("1")()
    summary = batch.join()
    assert (summary.counts, summary.stopped, summary.left) == ({"interrupted": 1}, "budget", 2)
    assert [result.id for result in read_results(tmp_path / "out")] == ["1"]


def test_a_number_is_an_id_and_comes_back_as_one(tmp_path: Path) -> None:
    file, out = tmp_path / "tasks", tmp_path / "out"
    file.write_text('{"id": 0, "command": "true"}\n{"id": "0", "command": "true"}\n{"id": 1.5, "command": "true"}\n')
    assert run_batch(file, "local", engine=lambda _: ScriptedEngine(succeed), out=out).counts == {"success": 3}
    assert {(result.id, type(result.id)) for result in read_results(out)} == {(0, int), ("0", str), (1.5, float)}
    again = run_batch(file, "local", engine=lambda _: ScriptedEngine(succeed), out=out)
    assert (again.counts, again.earlier, again.others) == ({}, {"success": 3}, 0)


def test_a_task_that_could_not_begin_is_tried_again() -> None:
    def act(task: Task, times: int) -> Result:
        return (
            Result(task.id, "error", error=f"busy {task.id}", began=False) if times < 3 else Result(task.id, "success")
        )

    engine = ScriptedEngine(act)
    assert run_batch(tasks(2), "local", engine=lambda _: engine).ok
    assert sorted(engine.started) == ["0"] * 3 + ["1"] * 3


def test_a_batch_is_given_up_when_no_environment_starts_and_its_tasks_stay_to_be_run(tmp_path: Path) -> None:
    def act(task: Task, _: int) -> Result:
        return Result(task.id, "error", error=f"container {len(task.id) * 17} has no such image", began=False)

    with pytest.raises(EnvironmentStartError, match=r"aborted, as no environment starts: container .* no such image"):
        run_batch(tasks(300), "local", engine=lambda _: ScriptedEngine(act), out=tmp_path / "out")
    assert list(read_results(tmp_path / "out")) == []
    assert run_batch(tasks(300), "local", engine=lambda _: ScriptedEngine(succeed), out=tmp_path / "out").ok


def test_a_lost_task_is_run_again_only_if_that_is_asked_for() -> None:
    def act(task: Task, times: int) -> Result:
        return Result(task.id, "lost", error="container removed") if times == 1 else Result(task.id, "success")

    assert run_batch(tasks(1), "local", engine=lambda _: ScriptedEngine(act)).counts == {"lost": 1}
    engine = ScriptedEngine(act)
    assert run_batch(tasks(1), "local", engine=lambda _: engine, retry="always").counts == {"success": 1}
    assert engine.started == ["0", "0"]


def test_a_task_that_is_lost_each_time_comes_to_an_end() -> None:
    engine = ScriptedEngine(lambda task, _: Result(task.id, "lost"))
    assert run_batch(tasks(1), "local", engine=lambda _: engine, retry=["lost"]).counts == {"lost": 1}
    assert len(engine.started) == 3


def test_results_that_cannot_be_written_end_the_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from hermes_env.batch.journal import LineFile

    append = LineFile.append

    def full(self: LineFile, data: bytes) -> None:
        if b'"id":"3"' in data:
            raise TerminalError("cannot write it: No space left on device")
        append(self, data)

    monkeypatch.setattr(LineFile, "append", full)
    with pytest.raises(TerminalError, match="No space left"):
        run_batch(tasks(100), "local", workers=1, engine=lambda _: ScriptedEngine(succeed), out=tmp_path / "out")
    monkeypatch.undo()
    again = run_batch(tasks(100), "local", engine=lambda _: ScriptedEngine(succeed), out=tmp_path / "out")
    assert (again.earlier, again.counts) == ({"success": 3, "lost": 1}, {"success": 96})


def test_progress_is_reported_and_a_callback_that_raises_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    told = []
    summary = run_batch(
        tasks(50), "local", engine=lambda _: ScriptedEngine(succeed), progress=told.append, on_result=lambda _: 1 / 0
    )
    assert summary.counts == {"success": 50}
    assert (told[-1].done, told[-1].total, told[-1].running, told[-1].seconds_left) == (50, 50, 0, 0.0)
    assert "a callback of the batch failed" in caplog.text
