"""`hermes-env rm`: selection of targets, question, and errors."""

from __future__ import annotations

import os

from targets import file_backend
from targets.command_line import RunAtTerminal

FILE_BACKEND = ["-b", file_backend.NAME]


def test_targets_are_removed_by_id_name_or_prefix_of_an_id(hermes_env, target_files) -> None:
    target_files.put("11112222", task="build")
    target_files.put("33334444", name="called")
    target_files.put("5555-and-so-on")
    target_files.put("stays")
    done = hermes_env("rm", *FILE_BACKEND, "11112222", "called", "5555", "5555-and-so-on")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        f"removed {file_backend.NAME} sandbox 11112222 of task build",
        f"removed {file_backend.NAME} sandbox 33334444",
        f"removed {file_backend.NAME} sandbox 5555-and-so-on",
    ]
    assert target_files.left == ["stays"]


def test_an_unknown_or_ambiguous_name_is_an_error_and_nothing_is_removed(hermes_env, target_files) -> None:
    target_files.put("11112222")
    target_files.put("11113333")
    target_files.put("222")
    for name, why in (("absent", "is called 'absent'"), ("1111", "matches several"), ("22", "is called '22'")):
        done = hermes_env("rm", *FILE_BACKEND, "11112222", name)
        assert (done.stdout, done.returncode) == ("", 125)
        assert why in done.stderr
    assert len(target_files.left) == 3


def test_a_target_in_use_is_refused_by_name_and_removed_by_force(hermes_env, target_files) -> None:
    target_files.put("busy", use="live")
    target_files.put("theirs", use="elsewhere")
    target_files.put("idle")
    for name, who in (("busy", f"process {os.getpid()} uses it"), ("theirs", "it belongs to another machine")):
        done = hermes_env("rm", *FILE_BACKEND, "idle", name)
        assert (done.stdout, done.returncode) == ("", 125)
        assert f"{name} is not removed: {who}" in done.stderr and "--force" in done.stderr
    assert len(target_files.left) == 3
    assert hermes_env("rm", *FILE_BACKEND, "--force", "busy", "theirs").returncode == 0
    assert target_files.left == ["idle"]


def test_all_removes_unused_targets_and_task_those_of_a_task(hermes_env, target_files) -> None:
    target_files.put("busy", use="live", task="build")
    target_files.put("idle", task="build")
    target_files.put("left", use="orphan", task="other")
    done = hermes_env("rm", *FILE_BACKEND, "--task", "build")
    assert done.returncode == 0
    assert target_files.left == ["busy", "left"]
    assert done.stderr == "hermes-env: not removed: 1 in use or elsewhere; --force removes them too\n"
    assert hermes_env("rm", *FILE_BACKEND, "--all").returncode == 0
    assert target_files.left == ["busy"]
    done = hermes_env("rm", *FILE_BACKEND, "--task", "nothing of it")
    assert (done.stdout, done.stderr, done.returncode) == ("", "nothing to remove\n", 0)
    assert hermes_env("rm", *FILE_BACKEND, "--all", "-f").returncode == 0
    assert target_files.left == []


def test_a_removal_error_is_reported_and_the_rest_is_removed(hermes_env, target_files) -> None:
    for name in ("first", "locked", "last"):
        target_files.put(name)
    done = hermes_env("rm", *FILE_BACKEND, "--all")
    assert done.returncode == 125
    assert "locked is locked; unlock it first" in done.stderr
    assert target_files.left == ["locked"]


def test_ids_task_and_all_exclude_each_other(hermes_env, target_files) -> None:
    target_files.put("name", task="build")
    for words in ([], ["name", "--all"], ["--task", "build", "--all"]):
        done = hermes_env("rm", *FILE_BACKEND, *words)
        assert done.returncode == 2
        assert "give either names, or --task, or --all" in done.stderr
    assert target_files.left == ["name"]


def test_rm_asks_at_a_terminal_unless_an_option_answers(
    run_at_terminal: RunAtTerminal, target_files: file_backend.TargetFiles
) -> None:
    target_files.put("first", task="build")
    target_files.put("second", task="build")
    for answer, code, left in ((b"n\n", 126, 2), (b"y\n", 0, 0)):
        shown, ended_with = run_at_terminal("rm", *FILE_BACKEND, "--task", "build", typed=answer)
        assert "sandbox first of task build" in shown and "sandbox second of task build" in shown
        assert "Remove these 2, with all files in there? [y/N]" in shown
        assert (ended_with, len(target_files.left)) == (code, left)
    for option in ("--yes", "-f"):
        target_files.put("first")
        shown, ended_with = run_at_terminal("rm", *FILE_BACKEND, "first", option, typed=b"")
        assert (ended_with, target_files.left) == (0, [])
        assert "Remove" not in shown
