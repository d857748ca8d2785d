from __future__ import annotations

import gc
import threading
import warnings
import weakref
from pathlib import Path
from typing import Any

import pytest
from targets import backends

from environments import create_environment
from environments.base import BaseEnvironment
from environments.conformance.check import wait_until
from hermes_tools import background_process, model_tools, script_tools
from hermes_tools.background import process as background
from hermes_tools.process import process
from hermes_tools.terminal import terminal


def _started(env: BaseEnvironment, command: str, **how: Any) -> str:
    return terminal(env, command, background=True, **how)["process_id"]


def _ended(env: BaseEnvironment, command: str) -> str:
    started = _started(env, command)
    assert process(env, "wait", started, timeout=60)["status"] != "running"
    return started


def test_a_process_has_output_input_and_an_end(env: BaseEnvironment) -> None:
    started = _started(env, "echo begun; read -r word; echo got $word; exit 4")
    assert wait_until(lambda: process(env, "log", started)["output"] == "begun\n", 60)
    assert process(env, "poll", started)["output"] == "begun\n"
    assert process(env, "poll", started)["output"] == ""
    assert "error" not in process(env, "submit", started, data="this")
    ended = process(env, "wait", started, timeout=60)
    assert (ended["status"], ended["exit_code"], ended["output"]) == ("exited", 4, "got this\n")
    assert process(env, "log", started)["output"] == "begun\ngot this\n"


def test_the_list_has_the_state_of_each_process(env: BaseEnvironment) -> None:
    assert process(env, "list") == {"processes": []}
    ended, running = _ended(env, "exit 3"), _started(env, "sleep 1000")
    first, second = process(env, "list")["processes"]
    assert (first["process_id"], first["command"], first["status"], first["exit_code"]) == (
        ended,
        "exit 3",
        "exited",
        3,
    )
    assert (second["process_id"], second["status"], "exit_code" in second) == (running, "running", False)
    assert first["started"] <= second["started"]
    assert first["seconds"] >= 0


def test_an_unknown_process_or_action_is_an_error_that_names_those_there_are(env: BaseEnvironment) -> None:
    none = "there is no process 'absent'; there are none; terminal(background=True) starts one"
    assert process(env, "poll", "absent") == {"error": none}
    started = _ended(env, "true")
    for action in ("poll", "log", "wait", "write", "submit", "kill"):
        assert process(env, action, "absent") == {"error": f"there is no process 'absent'; there are: {started}"}
        assert process(env, action) == {"error": f"process_id is needed; there are: {started}"}
    for unknown in ("stop", ""):
        error = process(env, unknown, started)["error"]
        assert error == f"there is no action {unknown!r}; there are: list, poll, log, wait, write, submit, kill"


def test_a_wrong_argument_is_an_error_with_its_name(env: BaseEnvironment) -> None:
    ended = _ended(env, "true")
    for action, arguments, error in (
        ("wait", {"timeout": -1}, "timeout is -1 s; give a positive number"),
        ("wait", {"timeout": float("nan")}, "timeout is nan s"),
        ("wait", {"timeout": "1"}, "timeout is of type str"),
        ("log", {"limit": 0}, "limit is 0; give at least 1"),
        ("write", {}, "data is needed"),
        ("submit", {}, "data is needed"),
    ):
        assert error in process(env, action, ended, **arguments)["error"]


def test_a_wait_ends_at_its_time_out_or_at_the_processes_end(env: BaseEnvironment) -> None:
    started = _started(env, "sleep 1000")
    for timeout in (0, 0.05):
        waited = process(env, "wait", started, timeout=timeout)
        assert waited == {"process_id": started, "status": "running", "exit_code": None, "output": ""}
    assert process(env, "wait", _started(env, "echo x"), timeout=float("inf"))["output"] == "x\n"


def test_the_log_has_lines_also_after_the_end(env: BaseEnvironment) -> None:
    started = _ended(env, "seq 0 999; printf end")
    for _ in range(2):
        shown = process(env, "log", started, offset=10, limit=3)
        assert (shown["output"], shown["offset"], shown["total_lines"]) == ("10\n11\n12\n", 10, 1001)
    assert process(env, "log", started)["output"] == "".join(f"{n}\n" for n in range(200))
    assert process(env, "log", started, offset=-2)["output"] == "999\nend"
    assert process(env, "log", started, offset=-5000, limit=1)["output"] == "0\n"
    assert process(env, "log", started, offset=5000)["output"] == ""
    assert process(env, "poll", started)["output"] == ""


def test_lines_keep_their_numbers_when_those_before_are_dropped(env: BaseEnvironment) -> None:
    started = _ended(env, "seq 0 99999")
    shown = process(env, "log", started, limit=2)
    assert shown["output"].splitlines()[1] == str(shown["offset"] + 1)
    assert shown["total_lines"] == 100_000
    assert "are no longer kept" in shown["note"]
    assert "note" not in process(env, "poll", started)
    later = process(env, "log", started, offset=99_000, limit=1)
    assert (later["output"], later["offset"], "note" in later) == ("99000\n", 99_000, False)


def test_a_line_of_any_length_comes_within_bounds(env: BaseEnvironment) -> None:
    started = _started(env, "head -c 1000000 /dev/zero | tr '\\0' x")
    waited = process(env, "wait", started, timeout=60)
    shown = process(env, "log", started)
    for output in (waited["output"], shown["output"]):
        assert len(output.encode()) <= 50_000
        assert "bytes of output omitted]" in output
    assert shown["total_lines"] == 1


def test_two_threads_that_poll_have_each_line_once(env: BaseEnvironment) -> None:
    started = _started(env, "for n in $(seq 1 2000); do echo $n; done")
    polled: list[str] = []

    def poll() -> None:
        status = "running"
        while status == "running":
            result = process(env, "poll", started)
            status = result["status"]
            polled.append(result["output"])

    threads = [threading.Thread(target=poll) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted("".join(polled)) == sorted("".join(f"{n}\n" for n in range(1, 2001)))


def test_killing_twice_is_killing_once(env: BaseEnvironment) -> None:
    started = _started(env, "echo up; sleep 1000")
    assert wait_until(lambda: process(env, "log", started)["output"] == "up\n", 60)
    first, second = process(env, "kill", started), process(env, "kill", started)
    assert (first["status"], first["output"]) == ("killed", "up\n")
    assert (second["status"], second["output"], second["exit_code"]) == ("killed", "", first["exit_code"])


def test_an_ended_process_is_not_killed_and_takes_no_input(env: BaseEnvironment) -> None:
    started = _ended(env, "echo x; exit 3")
    written = process(env, "submit", started, data="x")
    assert written["error"] == "the process has ended and takes no more input"
    killed = process(env, "kill", started)
    for shown in (written, killed):
        assert (shown["status"], shown["exit_code"]) == ("exited", 3)
    assert process(env, "log", started)["output"] == "x\n"


def test_the_output_of_a_process_outlives_its_target(tmp_path: Path) -> None:
    with backends.per_command(tmp_path) as subject, subject.make() as env:
        started = _started(env, "echo before; sleep 1000")
        assert wait_until(lambda: process(env, "log", started)["output"] == "before\n", 60)
        subject.lose_target(env)
        ended = process(env, "wait", started, timeout=60)
        assert (ended["status"], ended["exit_code"], bool(ended["error"])) == ("lost", None, True)
        assert process(env, "log", started)["output"] == "before\n"
        assert process(env, "kill", started)["status"] == "lost"
        assert "error" in process(env, "write", started, data="x")


def test_input_is_sent_as_it_is(env: BaseEnvironment) -> None:
    started = _started(env, "head -c 6 | od -An -c")
    process(env, "write", started, data="a\n\0")
    process(env, "submit", started, data="b\t")
    assert process(env, "wait", started, timeout=60)["output"].split() == ["a", "\\n", "\\0", "b", "\\t", "\\n"]


def test_a_write_does_not_wait_for_a_process_that_does_not_read(
    env: BaseEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "WRITE_SECONDS", 0.2)
    started = _started(env, "while [ ! -e go ]; do sleep 0.05; done; wc -c")
    assert "has not read all of this input" in process(env, "write", started, data="x" * 1_000_000)["error"]
    assert "was not sent" in process(env, "write", started, data="y")["error"]
    env.execute_oneshot("touch go")
    handle = background_process(started)
    assert wait_until(lambda: "error" not in process(env, "write", started, data="z"))
    handle.close_stdin()
    assert process(env, "wait", started, timeout=60)["output"].strip() == "1000001"


def test_processes_of_another_environment_are_unknown(env: BaseEnvironment, tmp_path: Path) -> None:
    started = _started(env, "sleep 1000")
    with create_environment("local", cwd=str(tmp_path)) as other:
        assert process(other, "list") == {"processes": []}
        assert "there is no process" in process(other, "kill", started)["error"]
    assert process(env, "poll", started)["status"] == "running"


def test_cleanup_ends_and_forgets_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "WRITE_SECONDS", 0.2)
    with create_environment("local", cwd=str(tmp_path)) as env:
        started = _started(env, "sleep 1000")
        handle = background_process(started)
        process(env, "write", started, data="x" * 1_000_000)
        assert any(thread.name == "hermes-write" for thread in threading.enumerate())
    assert not any(thread.name == "hermes-write" for thread in threading.enumerate())
    assert not handle.running
    assert process(env, "list") == {"processes": []}
    with pytest.raises(KeyError):
        background_process(started)


def test_processes_do_not_keep_an_unreferenced_environment_alive(tmp_path: Path) -> None:
    env = create_environment("local", cwd=str(tmp_path))
    _ended(env, "true")
    reference = weakref.ref(env)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del env
        assert wait_until(lambda: gc.collect() >= 0 and reference() is None)  # its threads may be ending
    assert any("was not cleaned up" in str(warning.message) for warning in caught)


def test_ended_processes_are_forgotten_after_a_time_and_beyond_a_number(
    env: BaseEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (background.KEPT_SECONDS, background.MAX_ENDED) == (30 * 60, 64)
    monkeypatch.setattr(background, "MAX_ENDED", 3)
    running = _started(env, "sleep 1000")
    ended = [_ended(env, "true") for _ in range(5)]
    assert [one["process_id"] for one in process(env, "list")["processes"]] == [running, *ended[-3:]]
    monkeypatch.setattr(background, "KEPT_SECONDS", 0.0)
    assert [one["process_id"] for one in process(env, "list")["processes"]] == [running]
    with pytest.raises(KeyError):
        background_process(ended[-1])


def test_no_result_holds_a_secret_or_a_terminal_control(env: BaseEnvironment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_API_KEY", "sk-0123456789abcdef")
    half, rest = "s''k-01234", "56789abcdef"  # the command line itself does not contain it
    started = _started(env, f"printf '\\033[1mthe '{half}; read x; echo {rest} {half}{rest}")
    assert wait_until(lambda: "the" in process(env, "log", started)["output"])
    shown = [process(env, "poll", started), process(env, "log", started)]
    assert [one["output"] for one in shown] == ["the ", "the [REDACTED:MY_API_KEY]"]
    process(env, "submit", started, data="go")
    shown += [process(env, "wait", started, timeout=60), process(env, "log", started), process(env, "list")]
    assert "sk-0" not in str(shown)
    assert "\033" not in str(shown)
    assert shown[3]["output"] == "the [REDACTED:MY_API_KEY] [REDACTED:MY_API_KEY]\n"


def test_the_process_tool_is_for_models_and_not_for_scripts(env: BaseEnvironment) -> None:
    assert model_tools(env)["process"]("list") == {"processes": []}
    assert "process" not in script_tools(env)
