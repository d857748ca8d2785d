"""`hermes-env rm`: what it removes, what it asks, and what it leaves alone."""

from __future__ import annotations

import os

from targets import shelf
from targets.command_line import At

SHELF = ["-b", shelf.NAME]


def test_things_are_removed_by_id_by_name_or_by_how_an_id_begins(hermes_env, things) -> None:
    things.put("11112222", task="build")
    things.put("33334444", name="called")
    things.put("5555-and-so-on")
    things.put("stays")
    done = hermes_env("rm", *SHELF, "11112222", "called", "5555", "5555-and-so-on")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        f"removed {shelf.NAME} sandbox 11112222 of task build",
        f"removed {shelf.NAME} sandbox 33334444",
        f"removed {shelf.NAME} sandbox 5555-and-so-on",
    ]
    assert things.left == ["stays"]


def test_a_name_that_means_nothing_or_too_much_is_an_error_and_nothing_is_removed(hermes_env, things) -> None:
    things.put("11112222")
    things.put("11113333")
    things.put("222")
    for name, why in (("absent", "is called 'absent'"), ("1111", "matches several"), ("22", "is called '22'")):
        done = hermes_env("rm", *SHELF, "11112222", name)
        assert (done.stdout, done.returncode) == ("", 125)
        assert why in done.stderr
    assert len(things.left) == 3


def test_what_is_in_use_is_refused_by_name_and_removed_by_force(hermes_env, things) -> None:
    things.put("busy", use="live")
    things.put("theirs", use="elsewhere")
    things.put("idle")
    for name, who in (("busy", f"process {os.getpid()} uses it"), ("theirs", "it belongs to another machine")):
        done = hermes_env("rm", *SHELF, "idle", name)
        assert (done.stdout, done.returncode) == ("", 125)
        assert f"{name} is not removed: {who}" in done.stderr and "--force" in done.stderr
    assert len(things.left) == 3
    assert hermes_env("rm", *SHELF, "--force", "busy", "theirs").returncode == 0
    assert things.left == ["idle"]


def test_all_is_what_nobody_uses_and_a_task_has_its_own(hermes_env, things) -> None:
    things.put("busy", use="live", task="build")
    things.put("idle", task="build")
    things.put("left", use="orphan", task="other")
    done = hermes_env("rm", *SHELF, "--task", "build")
    assert done.returncode == 0
    assert things.left == ["busy", "left"]
    assert done.stderr == "hermes-env: not removed: 1 in use or elsewhere; --force removes them too\n"
    assert hermes_env("rm", *SHELF, "--all").returncode == 0
    assert things.left == ["busy"]
    done = hermes_env("rm", *SHELF, "--task", "nothing of it")
    assert (done.stdout, done.stderr, done.returncode) == ("", "nothing to remove\n", 0)
    assert hermes_env("rm", *SHELF, "--all", "-f").returncode == 0
    assert things.left == []


def test_what_cannot_be_removed_is_told_and_the_rest_is_removed(hermes_env, things) -> None:
    for name in ("first", "glued", "last"):
        things.put(name)
    done = hermes_env("rm", *SHELF, "--all")
    assert done.returncode == 125
    assert "glued is glued to the shelf; use a hammer" in done.stderr
    assert things.left == ["glued"]


def test_what_to_remove_is_said_in_one_way(hermes_env, things) -> None:
    things.put("name", task="build")
    for words in ([], ["name", "--all"], ["--task", "build", "--all"]):
        done = hermes_env("rm", *SHELF, *words)
        assert done.returncode == 2
        assert "give either names, or --task, or --all" in done.stderr
    assert things.left == ["name"]


def test_a_person_is_asked_first_unless_that_was_answered_before(at_terminal: At, things: shelf.Things) -> None:
    things.put("first", task="build")
    things.put("second", task="build")
    for answer, code, left in ((b"n\n", 126, 2), (b"y\n", 0, 0)):
        shown, ended_with = at_terminal("rm", *SHELF, "--task", "build", typed=answer)
        assert "sandbox first of task build" in shown and "sandbox second of task build" in shown
        assert "Remove these 2, with all files in there? [y/N]" in shown
        assert (ended_with, len(things.left)) == (code, left)
    for option in ("--yes", "-f"):
        things.put("first")
        shown, ended_with = at_terminal("rm", *SHELF, "first", option, typed=b"")
        assert (ended_with, things.left) == (0, [])
        assert "Remove" not in shown
