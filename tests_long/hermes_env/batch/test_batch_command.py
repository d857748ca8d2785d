"""`hermes-env batch`, run as a program."""

from __future__ import annotations

import json
import re
import signal
import sys
import threading
import traceback
from collections import Counter
from pathlib import Path

import pytest
from targets.processes import all_gone, processes_with

from environments import SettingsError, TerminalError
from environments.conformance.check import wait_until
from hermes_env.batch import read_results, run_batch
from hermes_env.batch.journal import BEGUN
from hermes_env.batch.options import work_named
from hermes_env.cli.foreground import run_interruptibly


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "results.jsonl"


@pytest.fixture
def write(tmp_path: Path):
    """Write a file of tasks, and return the path."""

    def write(*tasks: dict[str, object]) -> str:
        file = tmp_path / "tasks.jsonl"
        file.write_text("".join(json.dumps(task) + "\n" for task in tasks))
        return str(file)

    return write


def statuses(out: Path) -> dict[str, str]:
    return {result.id: result.status for result in read_results(out)}


def test_each_task_has_a_result_and_the_exit_code_tells_of_failures(hermes_env, write, out: Path) -> None:
    tasks = write({"id": "a", "command": "echo hi"}, {"id": "b", "command": "exit 3"})
    done = hermes_env("batch", tasks, "--out", str(out), "-b", "local")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("hermes-env: 1 success, 1 error in ")
    first, second = sorted(map(json.loads, out.read_text().splitlines()), key=lambda result: result["id"])
    assert {**first, "duration_seconds": 0} == {
        "id": "a",
        "status": "success",
        "output": "hi\n",
        "exit_code": 0,
        "duration_seconds": 0,
    }
    assert (second["status"], second["exit_code"], second["error"]) == ("error", 3, "exit code 3")
    again = hermes_env("batch", tasks, "--out", str(out), "-b", "local", "--json")
    assert again.returncode == 1
    assert json.loads(again.stdout) | {"seconds": 0} == {
        "counts": {},
        "earlier": {"success": 1, "error": 1},
        "others": 0,
        "left": 0,
        "seconds": 0,
        "stopped": None,
        "out": str(out),
    }


def test_failures_are_run_again_when_that_is_asked_for(hermes_env, write, out: Path, tmp_path: Path) -> None:
    tasks = write({"id": "a", "command": f"test -e {tmp_path}/mended"}, {"id": "b", "command": "true"})
    assert hermes_env("batch", tasks, "--out", str(out)).returncode == 1
    (tmp_path / "mended").touch()
    done = hermes_env("batch", tasks, "--out", str(out), "--retry", "error,timeout")
    assert (done.returncode, statuses(out)) == (0, {"a": "success", "b": "success"})
    assert "1 success in" in done.stderr
    assert "not run again: 1 success" in done.stderr


def test_results_of_other_tasks_stay_and_are_reported(write, out: Path) -> None:
    assert run_batch([{"id": "other", "command": "true"}], "local", out=out).others == 0
    summary = run_batch(write({"id": "a", "command": "true"}), "local", out=out)
    assert (summary.counts, summary.others, summary.ok) == ({"success": 1}, 1, True)
    assert str(summary).endswith(f"; {out} holds 1 of other tasks, too")
    assert statuses(out) == {"other": "success", "a": "success"}


def test_tasks_come_by_standard_input(hermes_env, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = hermes_env("batch", "-", "--out", str(out), stdin='{"id":"a","command":"true"}\n')
    assert (done.returncode, statuses(out)) == (0, {"a": "success"})
    done = hermes_env("batch", "-", "--out", str(out), stdin="\n")
    assert (done.returncode, done.stderr) == (0, "hermes-env: there were no tasks\n")
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(TerminalError, match="standard input is closed; give a file of tasks, or send them there"):
        run_batch("-", "local", out=out)


ROLLOUTS = """
import asyncio

async def work(env, task):
    await asyncio.sleep(0)
    answer = env.execute(["expr", str(task.data["a"]), "+", "1"]).output
    return {"output": answer, "reward": float(int(answer) == task.data["want"])}
"""


def test_python_code_of_the_current_directory_works_on_tasks(hermes_env, write, out: Path, tmp_path: Path) -> None:
    (tmp_path / "rollouts.py").write_text(ROLLOUTS)
    tasks = write({"id": "a", "a": 1, "want": 2}, {"id": "b", "a": 3, "want": 3})
    done = hermes_env("batch", tasks, "--out", str(out), "--work", "rollouts:work")
    assert done.returncode == 0, done.stderr
    assert {result.id: (result.output, result.data) for result in read_results(out)} == {
        "a": ("2\n", {"reward": 1.0}),
        "b": ("4\n", {"reward": 0.0}),
    }


NO_WORK = {
    "rollouts": "give module:function, such as rollouts:work for that in rollouts.py here",
    "no_such:work": "no_such cannot be imported: ModuleNotFoundError: No module named 'no_such'",
    "broken:work": "broken cannot be imported: ZeroDivisionError: division by zero",
    "json:loafs": "json has no loafs (did you mean 'loads'?); it is ",
    "json:loads": "work cannot be called as work(env, task): too many positional arguments",
    "json:__name__": "work is of type str; give a function",
}


def test_a_name_without_code_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "broken.py").write_text("1 / 0")
    for name, said in NO_WORK.items():
        with pytest.raises(SettingsError, match=re.escape(f"--work {name}: {said}")):
            work_named(name)


WRONG = [
    ([], 2, "line 1: a task has no field 'comand' (did you mean 'command'?)"),
    (["--engine", "thread"], 2, "there is no engine 'thread' (did you mean 'threads'?)"),
    (["--retry", "sometimes"], 2, "--retry sometimes: there is no such status"),
    (["--limit", "local=1", "--limit", "local=2"], 2, "--limit local: it is given twice; keep one"),
    (["--limit", "docker"], 2, "--limit docker: it should be a name, = and a number above 0"),
    (["--budget", "0"], 2, "--budget 0: it should be a number of seconds above 0"),
]


def test_wrong_input_is_an_error_message(hermes_env, write, out: Path) -> None:
    for words, code, said in WRONG:
        tasks = write({"id": "a", "command": "true"} if words else {"id": "a", "comand": "true"})
        done = hermes_env("batch", tasks, "--out", str(out), *words)
        assert (done.returncode, done.stdout) == (code, ""), words
        assert said in done.stderr
        assert not out.exists()


def test_the_budget_is_an_exit_code_of_its_own(hermes_env, write, out: Path, nap: str) -> None:
    tasks = write({"id": "a", "command": f"sleep {nap}"}, {"id": "b", "command": "true"})
    done = hermes_env("batch", tasks, "--out", str(out), "--workers", "1", "--budget", "0.5")
    assert (done.returncode, statuses(out)) == (124, {"a": "interrupted"})
    assert all_gone(nap)
    assert hermes_env("batch", tasks, "--out", str(out)).returncode == 1
    assert statuses(out) == {"a": "interrupted", "b": "success"}


def test_a_signal_interrupts_and_records_tasks_while_the_results_are_locked(
    hermes_env, start_hermes_env, write, out: Path, nap: str
) -> None:
    tasks = write(*({"id": str(count), "command": f"sleep {nap}"} for count in range(5)))
    process = start_hermes_env("batch", tasks, "--out", str(out), "--workers", "2")
    assert wait_until(lambda: len(processes_with(nap)) >= 2, 60)
    done = hermes_env("batch", tasks, "--out", str(out))
    assert done.returncode == 125 and "another run is writing to" in done.stderr
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"2 interrupted in " in errors
    assert b"not begun: 3 (run the same again to run them)" in errors
    assert statuses(out) == {"0": "interrupted", "1": "interrupted"}
    assert not out.with_name(out.name + BEGUN).exists()
    assert all_gone(nap)


def test_a_second_signal_does_not_wait_for_the_end_of_the_first() -> None:
    main = threading.main_thread().ident or 0
    told, again = threading.Event(), threading.Event()

    def is_waiting() -> bool:
        stack = traceback.extract_stack(sys._current_frames()[main])
        names = [frame.name for frame in stack]
        return "run_interruptibly" in names and names[-3:] == ["wait", "wait", "wait"]

    def press() -> None:
        assert wait_until(is_waiting, 60)
        signal.pthread_kill(main, signal.SIGINT)

    def work() -> bool:
        press()
        assert told.wait(60)
        press()
        return again.wait(60)

    assert run_interruptibly(work, lambda _: told.set(), on_second=again.set)


def test_a_user_sees_the_progress_of_a_copy(open_terminal, write, out: Path, nap: str) -> None:
    tasks = write(
        {"id": "a", "command": "true"}, {"id": "b", "command": f"sleep {nap}"}, {"id": "c", "command": "true"}
    )
    user = open_terminal("batch", tasks, "--out", str(out), "--workers", "2")
    user.expect("2 of 3 done, 1 running, .*/s, 0:.. left")
    user.type("\x03")
    user.expect("ending the running tasks; press Ctrl-C again to exit at once")
    user.expect("2 success, 1 interrupted in")
    assert user.wait_for_exit() == 130
    assert user.has_initial_settings


def test_a_killed_run_is_continued_and_no_task_runs_twice(
    hermes_env, start_hermes_env, write, out: Path, tmp_path: Path, nap: str
) -> None:
    log = tmp_path / "log"
    tasks = write(
        *({"id": f"sleeper {count}", "command": f"echo sleeper {count} >> {log}; sleep {nap}"} for count in range(2)),
        *({"id": str(count), "command": f"echo {count} >> {log}"} for count in range(30)),
    )
    words = ("batch", tasks, "--out", str(out), "--workers", "6", "--uses", "6", "-b", "local")
    process = start_hermes_env(*words)
    assert wait_until(
        lambda: out.exists() and out.read_bytes().count(b"\n") >= 10 and len(processes_with(nap)) >= 2, 100
    )
    process.kill()
    process.wait()
    done = hermes_env(*words)
    assert done.returncode == 1
    came, ran = Counter(statuses(out).values()), Counter(log.read_text().splitlines())
    assert came.total() == len(out.read_text().splitlines()) == 32
    assert set(ran.values()) == {1}
    assert {name for name, status in statuses(out).items() if status != "lost"} <= ran.keys()
    assert came["success"] + came["lost"] == 32
    assert 2 <= came["lost"] <= 6
    assert all_gone(nap)
