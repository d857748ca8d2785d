from __future__ import annotations

import json
import os
import pickle
import threading
from pathlib import Path

import pytest

from environments import load_settings
from environments.errors import SettingsError, TerminalError
from hermes_env.batch import Result, Task, TaskError, run_batch
from hermes_env.batch.result import result_of
from hermes_env.batch.source import TaskSource
from hermes_env.batch.task_types import TaskTypes


def line(**fields: object) -> str:
    return json.dumps(fields) + "\n"


WRONG_LINES = [
    (line(command="true"), "a task has no id; give it one"),
    (line(id=[3], command="true"), "the id of a task is [3]; give it text or a number, such as"),
    (line(id=True, command="true"), "the id of a task is True; give it text or a number, such as"),
    (line(id=float("nan"), command="true"), "the id of a task is nan; give it text or a number, such as"),
    (line(id="a"), "task 'a' has neither a command nor a script; give it one of them"),
    (line(id="a", command="true", script="1"), "task 'a' has both a command and a script"),
    (line(id="a", comand="true"), "a task has no field 'comand' (did you mean 'command'?)"),
    (line(id="a", command=["true"]), "command is a list; it should be text"),
    (line(id="a", command="true", timeout="1"), "timeout is text; it should be a number of seconds"),
    (line(id="a", command="true", timeout=0), "timeout is 0 s; it should be greater than 0"),
    (line(id="a", command="true", files=["x"]), "files is a list; it should be an object"),
    (line(id="a", command="true", files={"x": 1}), "files['x'] is a number; it should be text"),
    (line(id="a", command="true", files={"x": {"base64": "?"}}), "files['x'] is not valid base64"),
    (line(id="a", command="a\0b"), "command holds a NUL character, which no shell can take; leave it out"),
    (line(id="a", script="\ud800"), "script holds half of a character, '\\ud800', for which there are no bytes"),
    (line(id="a", command="true", files={"": "x"}), "files has an empty path; give each file one"),
    (line(id="a", command="true", files={"a\0": "x"}), "the path 'a\\x00' of files holds a NUL character"),
    (line(id="a", command="true", files={"x": "\ud800"}), "files['x'] holds half of a character"),
    (line(id="a", command="true", settings="docker"), "settings is text; it should be an object"),
    (line(id="a", command="true", settings={"timout": 1}), "argument timout: no such setting"),
    (line(id="a", command="true", settings={"backend": "dokcer"}), "unknown backend 'dokcer'"),
    (line(id="a", command="true", settings={"container_memory": 5}), "cannot enforce container_memory"),
    (line(id=1, command="true") + line(id=1.0, script="1"), "an earlier task has the same id 1.0"),
    (line(id="first", command="true"), "an earlier task has the same id 'first'"),
    ("[1]\n", "a task is an object with an id and a command or a script, and this is a list"),
    ("{'id'}\n", "it is not valid JSON"),
]


def test_a_wrong_line_is_named_before_anything_runs(tmp_path: Path) -> None:
    file, ran = tmp_path / "tasks.jsonl", tmp_path / "ran"
    for text, said in WRONG_LINES:
        file.write_text(f"{line(id='first', command=f'touch {ran}')}\n{text}")
        with pytest.raises(TaskError) as raised:
            run_batch(file, "local", out=tmp_path / "out")
        assert f"{file}, line {2 + text.count(chr(10))}: " in str(raised.value)
        assert said in str(raised.value)
    assert not ran.exists()
    assert not (tmp_path / "out").exists()


def test_a_wrong_task_of_a_list_is_named_by_its_place(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="task 2: a task has no id"):
        run_batch([{"id": "a", "command": "true"}, {}], "local", out=tmp_path / "out")


def test_a_task_that_python_code_has_made_is_looked_at_too() -> None:
    for task, said in (
        (Task("", "true"), "the id of a task is ''; give it text"),
        (Task("a"), "task 'a' has neither a command nor a script"),
        (Task("a", "true", timeout=-1), "timeout is -1 s; it should be greater than 0"),
    ):
        with pytest.raises(TaskError, match=f"task 1: {said}"):
            run_batch([task], "local")


def test_a_task_and_a_result_are_the_same_after_a_line_and_after_a_pickle() -> None:
    task = Task("ü", None, "print()", 3.5, {"a": "text", "b": b"\0\xff"}, {"cwd": "/"}, {"reward": [1, None]})
    assert Task.of_line(task.to_line(), has_work=True) == pickle.loads(pickle.dumps(task)) == task
    result = Result("ü", "error", "\ud800\n", 3, 0.25, "why", {"reward": 0.5})
    assert Result.of_line(result.to_line()) == pickle.loads(pickle.dumps(result)) == result
    assert result.to_line().isascii()


def test_an_unreadable_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(Exception, match=r"cannot read the tasks in .*: No such file or directory"):
        run_batch(tmp_path / "missing", "local")


def test_tasks_come_by_a_pipe_that_has_a_name(tmp_path: Path) -> None:
    pipe = tmp_path / "tasks"
    os.mkfifo(pipe)
    thread = threading.Thread(target=pipe.write_text, args=(line(id="a", command="true"),))
    thread.start()
    assert run_batch(pipe, "local").counts == {"success": 1}
    thread.join()


def test_only_the_ids_of_a_file_stay_in_memory(tmp_path: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    file.write_text("".join(line(id=str(number), command="x" * 1000) for number in range(100)))
    source = TaskSource(file, TaskTypes("local"), has_work=False)
    assert len(source.ids or ()) == 100
    assert [task.id for task in source] == [str(number) for number in range(100)]
    source.close()


@pytest.mark.parametrize("base", [{"backend": "local", "timeout": 9}, load_settings("local", timeout=9)])
def test_a_tasks_own_settings_go_over_those_of_the_batch(base: object) -> None:
    types = TaskTypes(base)  # type: ignore[arg-type]
    own = types.of(Task("a", "true", settings={"cwd": "/tmp"}))
    assert (own.loaded.env, own.loaded.cwd, own.loaded.timeout) == ("local", "/tmp", 9)
    there = types.of(Task("b", "true", settings={"backend": "ssh", "host": "h", "user": "u"}))
    assert (there.loaded.env, there.loaded.ssh.host, there.loaded.timeout) == ("ssh", "h", 9)
    assert there.places == ("ssh", "ssh:h")
    assert types.of(Task("c", "true")) is types.base
    assert types.of(Task("d", "true", settings={"cwd": "/tmp"})) is own


def test_own_settings_of_the_same_backend_leave_its_others_as_they_are() -> None:
    types = TaskTypes(load_settings("ssh", host="h", user="u", port=9))
    own = types.of(Task("a", "true", settings={"host": "other", "timeout": 3}))
    assert (own.loaded.ssh.host, own.loaded.ssh.user, own.loaded.ssh.port, own.loaded.timeout) == ("other", "u", 9, 3)


WRONG_ARGUMENTS: list[tuple[dict[str, object], type[Exception], str]] = [
    ({"workers": 0}, ValueError, "workers is 0"),
    ({"budget": -1}, ValueError, "budget is -1"),
    ({"retry": "sometimes"}, ValueError, "retry is 'sometimes'; give 'never', 'always'"),
    ({"retry": ["wrong"]}, ValueError, "retry names the status 'wrong'"),
    ({"engine": "thread"}, SettingsError, r"there is no engine 'thread' \(did you mean 'threads'\?\)"),
    ({"limits": {"dokcer": 3}}, SettingsError, r"limits\['dokcer'\]: unknown backend 'dokcer'"),
    ({"limits": {"docker": 0}}, ValueError, r"limits\['docker'\] is 0"),
    ({"settings": "dokcer"}, SettingsError, "unknown backend 'dokcer'"),
    ({"settings": 3}, SettingsError, "settings is of type int; give a backend"),
    ({"tasks": 3}, TypeError, "tasks is of type int"),
    ({"retry": 3}, TypeError, "retry is of type int; give 'never', 'always', or a list of statuses"),
    ({"limits": ["docker"]}, TypeError, "limits is of type list; give a mapping"),
    ({"resources": 3}, TypeError, "resources is of type int; give a mapping"),
    ({"progress": 3}, TypeError, "progress is of type int; give a function"),
    ({"work": 3}, TypeError, "work is of type int; give a function"),
    ({"work": lambda env: env}, TypeError, r"work cannot be called as work\(env, task\): too many positional"),
    ({"interrupt": 3}, TypeError, r"interrupt is of type int; give a threading\.Event"),
    ({"imge": "x", "settings": "docker"}, SettingsError, r"argument imge: no such setting of backend 'docker'"),
    ({"cwd": "/", "settings": load_settings("local")}, SettingsError, "cwd: settings comes from load_settings"),
    ({"worker": 3}, SettingsError, "argument worker: no such setting"),
    ({"out": "-"}, TerminalError, "results cannot go to '-'; give a file"),
    ({"address": "auto"}, SettingsError, "an address: engine 'threads' runs all tasks in this process"),
    ({"resources": {"num_cpus": 1}}, SettingsError, "resources: engine 'threads' runs all tasks in this process"),
]


def test_settings_are_given_by_name_as_for_create_environment(tmp_path: Path) -> None:
    task = [{"id": 1, "command": "pwd"}]
    for settings in (None, "local", {"backend": "local", "cwd": "/"}):
        (result,) = run_batch(task, settings, cwd=str(tmp_path)).results
        assert (result.id, result.output) == (1, f"{tmp_path}\n")


def test_a_result_without_success_has_an_exit_code_or_an_error() -> None:
    for status in ("error", "timeout", "interrupted", "lost"):
        for result in (
            Result("a", status),
            result_of("a", {"status": status}),
            Result.of_line(Result("a", status).to_line()),
        ):
            assert result.error == f"the task ended with status {status} and without an exit code"
        assert Result("a", status, exit_code=3).error is None
    assert Result("a", "success").error is None


def test_a_wrong_argument_is_refused(tmp_path: Path) -> None:
    for arguments, error, said in WRONG_ARGUMENTS:
        with pytest.raises(error, match=said):
            run_batch(**{"tasks": [], "out": tmp_path / "out", **arguments})  # type: ignore[arg-type]
        assert not (tmp_path / "out").exists()
