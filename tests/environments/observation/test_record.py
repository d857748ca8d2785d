"""Records of commands, starts, file calls and processes."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from targets.run_record import RunRecord

from environments import BaseEnvironment, CancelScope, create_environment
from environments.approvals import Ask, CommandRequest
from environments.conformance.check import wait_until
from environments.errors import DeniedError, StartStoppedError, TerminalError
from environments.local import LocalEnvironment
from environments.options import checked
from environments.output import Channel
from environments.starting import current_start

FULL = 180.0


def test_a_command_is_recorded_with_the_start_that_it_waits_for(path: Path):
    with create_environment("local", record=str(path), task_id="mine") as env:
        env.execute("echo out; cd /; exit 3")
    seen = RunRecord(path)
    command, start = seen.one("command"), seen.one("start")
    assert command["name"] == command["command"] == "echo out; cd /; exit 3"
    assert (command["environment"], command["backend"], command["task"]) == ("local 1", "local", "mine")
    assert (command["way"], command["timeout"], command["status"]) == ("session", FULL, "error")
    assert (command["exit_code"], command["output"], command["output_bytes"], command["cwd"]) == (3, "out\n", 4, "/")
    assert start.begin["parent"] == command["id"] and start["status"] == "success"
    assert command["seconds"] >= command["waited"] >= start["seconds"] > 0
    assert command.end["time"] == pytest.approx(command.begin["time"] + command["seconds"], abs=1e-4)


def test_an_event_without_duration_is_a_line_of_its_own(env: BaseEnvironment, path: Path):
    env.observation.emit("network_refused", host="example.org", port=443)
    env.execute_oneshot("true", env={"MY_TOKEN": "hunter2-hunter2"})
    with env.observation.command(checked("outer", 1), "session"):
        env.observation.batch_task = "t7"
        env.observation.emit("network_refused", host="10.0.0.1", port=None)
    first, second = RunRecord(path).of("network_refused")
    assert (first["id"], first["host"], first["port"]) == (None, "example.org", 443)
    assert (first["environment"], first["backend"], first["task"]) == ("local 1", "local", "default")
    assert second["id"] == RunRecord(path).last("command").begin["id"] and second["batch_task"] == "t7"
    assert "port" not in second and "batch_task" not in first


def test_the_first_line_names_the_writing_process(env: BaseEnvironment, path: Path):
    env.execute("true")
    env.execute_oneshot("true")
    first, *rest = RunRecord(path).events
    assert first["event"] == "run" and first["version"] == 1 and first["pid"] and first["program"] and first["host"]
    assert abs(first["time"] - time.time()) < 3600
    assert {each["run"] for each in rest} == {first["run"]} and all(each["event"] != "run" for each in rest)
    ids = [each["id"] for each in rest if each["event"] == "begin"]
    assert len(set(ids)) == len(ids) > 1


def test_arguments_of_a_command_are_recorded_without_values_of_variables(env: BaseEnvironment, path: Path):
    env.execute_oneshot(
        "cat; echo err >&2", stdin="input", env={"B": "value-b", "A": "value-a"}, cwd="/", timeout=7, stderr="separate"
    )
    with env.session("side") as side:
        side.execute(["echo", "a b"])
    oneshot, named = RunRecord(path).kind("command")
    assert (oneshot["way"], oneshot["variables"], oneshot["input_bytes"]) == ("oneshot", ["A", "B"], 5)
    assert (oneshot["cwd"], oneshot.begin["cwd"], oneshot["timeout"], oneshot.get("session")) == ("/", "/", 7, None)
    assert (oneshot["output"], oneshot["stderr"], oneshot["output_bytes"]) == ("input", "err\n", 9)
    assert "value-" not in path.read_text()
    assert (named["session"], named["way"], named["command"]) == ("side", "session", "echo 'a b'")


def test_time_limits_and_time_outs_are_recorded(env: BaseEnvironment, path: Path):
    env.execute("true", timeout=float("inf"))
    env.execute("echo begun; sleep 1000", timeout=0.2)
    free, late = RunRecord(path).kind("command")
    assert free.get("timeout") is None and free["status"] == "success"
    assert (late["status"], late["exit_code"], late["output"]) == ("timeout", 124, "begun\n")


def test_interrupted_and_cancelled_commands_are_recorded_as_such(env: BaseEnvironment, path: Path):
    event = threading.Event()
    env.execute("echo begun; sleep 1000", interrupt=event, on_output=lambda text: event.set())
    scope = CancelScope()
    scope.cancel()
    with scope.active():
        env.execute("never")
    assert [each["status"] for each in RunRecord(path).kind("command")] == ["interrupted", "cancelled"]


def test_the_wait_for_the_session_lock_is_recorded(env: BaseEnvironment, path: Path, tmp_path: Path):
    env.execute("true")
    go, runs = tmp_path / "go", tmp_path / "runs"
    first = threading.Thread(target=env.execute, args=(f"touch {runs}; while [ ! -e {go} ]; do sleep 0.05; done",))
    first.start()
    assert wait_until(runs.exists)  # a command has begun for the record before it has the session
    assert len(RunRecord(path).of("begin")) == 3
    second = threading.Thread(target=env.execute, args=("echo second",))
    second.start()
    assert wait_until(lambda: len(RunRecord(path).of("begin")) == 4)
    released = time.time()
    go.touch()
    first.join()
    second.join()
    seen = RunRecord(path).last("command")
    assert seen["seconds"] >= seen["waited"] and seen.begin["time"] + seen["waited"] >= released


def test_denials_and_approvals_are_recorded_with_the_time_of_the_question(path: Path):
    def ask(request: CommandRequest) -> Ask | None:
        return Ask("may it?") if "secretly" in request.command else None

    def approve(request: object, question: str) -> bool:
        time.sleep(0.2)
        return "again" in str(request)

    with create_environment("local", record=path, before_command=ask, approve=approve) as env:
        with pytest.raises(DeniedError):
            env.execute("secretly")
        env.execute("echo secretly again")
        with pytest.raises(DeniedError):
            env.start("secretly")
    seen = RunRecord(path)
    assert seen.one("process")["status"] == "denied"
    denied, allowed = seen.kind("command")
    assert (denied["status"], denied["error_type"]) == ("denied", "DeniedError") and "denied" in denied["error"]
    assert allowed["status"] == "success" and allowed["waited"] >= allowed["approval"] >= 0.2 <= denied["approval"]


def test_a_start_that_fails_or_is_stopped_is_recorded_with_its_command(path: Path):
    stop = threading.Event()

    class Slow(LocalEnvironment):
        def start_target(self) -> None:
            if self.settings.task_id == "fails":
                raise TerminalError("there is no such thing")
            stop.set()
            current_start().pause(100)

    with _make(Slow, path, "fails") as env, pytest.raises(TerminalError):
        env.execute("true")
    with _make(Slow, path, "slow") as env, pytest.raises(StartStoppedError):
        env.execute("true", interrupt=stop)
    seen = RunRecord(path)
    assert [each["status"] for each in seen.kind("command")] == ["failed", "interrupted"]
    assert [each["status"] for each in seen.kind("start")] == ["failed", "interrupted"]
    assert seen.kind("start")[0]["error"] == seen.kind("command")[0]["error"] == "there is no such thing"


def _make(kind: type[LocalEnvironment], path: Path, task: str) -> BaseEnvironment:
    with create_environment("local", record=path, task_id=task) as env:
        return kind(env.settings)


def test_each_file_call_is_recorded_once_with_its_paths_and_size(env: BaseEnvironment, path: Path, tmp_path: Path):
    here = tmp_path / "here"
    env.write_bytes("a", b"12345")
    env.read_bytes(path="a", limit=3)
    env.get_file("a", here)
    env.put_file(here, remote="b")
    env.mkdir("c")
    with pytest.raises(FileNotFoundError):
        env.read_bytes("none")
    seen = RunRecord(path)
    recorded = [
        (each["operation"], each["path"], each.get("local"), each.get("bytes")) for each in seen.kind("transfer")
    ]
    assert recorded == [
        ("write_bytes", "a", None, 5),
        ("read_bytes", "a", None, 3),
        ("get_file", "a", str(here), 5),
        ("put_file", "b", str(here), 5),
        ("read_bytes", "none", None, None),
    ]
    assert (seen.one("file")["operation"], seen.one("file")["path"]) == ("mkdir", "c")
    failed = seen.last("transfer")
    assert (failed["status"], failed["error_type"]) == ("failed", "TargetFileNotFoundError")
    notes = [each for each in seen.of("note") if each["id"] == seen.kind("transfer")[3]["id"]]
    assert notes[0]["text"] == "uploading b" and (notes[-1]["done"], notes[-1]["total"]) == (5, 5)


def test_a_process_is_recorded_to_its_end_with_its_output(env: BaseEnvironment, path: Path, tmp_path: Path):
    go = tmp_path / "go"
    process = env.start(f"echo begun; while [ ! -e {go} ]; do sleep 0.05; done; echo done; exit 4")
    process.expect("begun\n")
    env.execute("echo meanwhile")
    assert not RunRecord(path).one("process").end
    go.touch()
    assert process.wait() == 4 and process.read() == "done\n"
    assert wait_until(lambda: bool(RunRecord(path).one("process").end))
    seen = RunRecord(path).one("process")
    assert (seen["status"], seen["exit_code"], seen["output"], seen["pty"]) == ("error", 4, "begun\ndone\n", False)
    assert seen["output_bytes"] == 11 and seen["waited"] > 0
    assert RunRecord(path).last("command")["parent"] is None


def test_a_process_with_an_output_sink_is_recorded(env: BaseEnvironment, path: Path):
    class Sink:
        separate = True
        taken = b""

        def add(self, channel: Channel, data: bytes) -> None:
            self.taken += data

    sink = Sink()
    env.start("echo out; echo err >&2", sink=sink).wait()
    assert wait_until(lambda: bool(RunRecord(path).one("process").end))
    seen = RunRecord(path).one("process")
    assert (seen["output"], seen["stderr"], sorted(sink.taken.split())) == ("out\n", "err\n", [b"err", b"out"])


def test_a_process_on_a_terminal_is_recorded_as_the_terminal_shows_it(env: BaseEnvironment, path: Path):
    process = env.start("read word; echo got $word", pty=True)
    process.write("this\n")
    assert process.wait() == 0
    assert wait_until(lambda: bool(RunRecord(path).one("process").end))
    assert RunRecord(path).one("process")["output"] == "this\r\ngot this\r\n" and RunRecord(path).one("process")["pty"]
