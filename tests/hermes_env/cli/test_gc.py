"""`hermes-env gc`: what it removes, and what it would remove."""

from __future__ import annotations

import os

from targets import shelf


def test_orphans_are_removed_and_told_and_a_dry_run_removes_nothing(hermes_env, things, monkeypatch) -> None:
    monkeypatch.setattr("environments.inventory.backend_names", list)
    things.put("aaaa", use="orphan", task="build\x1b[2J")
    things.put("bbbb", use="orphan", name="kept-aside", state="running")
    for use in ("live", "free", "elsewhere"):
        things.put(use, use=use)
    for option in ("--dry-run", "-n"):
        done = hermes_env("gc", option, TERMINAL_ENV=shelf.NAME)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.splitlines() == [
            f"{shelf.NAME}: would remove sandbox aaaa of task build, whose process {os.getpid()} has ended",
            f"{shelf.NAME}: would stop sandbox bbbb, whose process {os.getpid()} has ended; its files are kept",
        ]
        assert len(things.left) == 5
    done = hermes_env("gc", TERMINAL_ENV=shelf.NAME)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        f"{shelf.NAME}: removed sandbox aaaa of task build, whose process {os.getpid()} has ended",
        f"{shelf.NAME}: stopped sandbox bbbb, whose process {os.getpid()} has ended; its files are kept",
    ]
    assert things.left == ["bbbb.stopped", "elsewhere", "free", "live"]


def test_nothing_is_said_to_be_nothing(hermes_env, things, monkeypatch) -> None:
    monkeypatch.setattr("environments.inventory.backend_names", list)
    for options in ([], ["--dry-run"]):
        done = hermes_env("gc", *options, TERMINAL_ENV=shelf.NAME)
        assert (done.returncode, done.stdout, done.stderr) == (0, "nothing to collect\n", "")


def test_what_cannot_be_looked_at_is_told_and_what_was_found_before_is_removed(hermes_env, things, monkeypatch) -> None:
    monkeypatch.setattr("environments.inventory.backend_names", list)
    things.put("aaaa", use="orphan")
    things.put("abc-glued", use="orphan")
    things.put("broken")
    done = hermes_env("gc", "--dry-run", TERMINAL_ENV=shelf.NAME)
    assert done.returncode == 0
    assert done.stderr == f"hermes-env: {shelf.NAME} could not be queried: ValueError: the shelf has come down\n"
    assert len(things.left) == 3
    done = hermes_env("gc", TERMINAL_ENV=shelf.NAME)
    assert done.returncode == 0
    assert "removed sandbox aaaa" in done.stdout
    assert things.left == ["abc-glued", "broken"]
