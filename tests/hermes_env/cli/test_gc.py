"""`hermes-env gc`: removals and dry runs."""

from __future__ import annotations

import os

from targets import file_backend


def test_orphans_are_removed_and_printed_and_a_dry_run_removes_nothing(hermes_env, target_files, monkeypatch) -> None:
    monkeypatch.setattr("environments.inventory.backend_names", list)
    target_files.put("aaaa", use="orphan", task="build\x1b[2J")
    target_files.put("bbbb", use="orphan", name="kept-aside", state="running")
    for use in ("live", "free", "elsewhere"):
        target_files.put(use, use=use)
    for option in ("--dry-run", "-n"):
        done = hermes_env("gc", option, TERMINAL_ENV=file_backend.NAME)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.splitlines() == [
            f"{file_backend.NAME}: would remove sandbox aaaa of task build, whose process {os.getpid()} has ended",
            f"{file_backend.NAME}: would stop sandbox bbbb, whose process {os.getpid()} has ended; its files are kept",
        ]
        assert len(target_files.left) == 5
    done = hermes_env("gc", TERMINAL_ENV=file_backend.NAME)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        f"{file_backend.NAME}: removed sandbox aaaa of task build, whose process {os.getpid()} has ended",
        f"{file_backend.NAME}: stopped sandbox bbbb, whose process {os.getpid()} has ended; its files are kept",
    ]
    assert target_files.left == ["bbbb.stopped", "elsewhere", "free", "live"]


def test_gc_without_orphans_prints_a_message(hermes_env, target_files, monkeypatch) -> None:
    monkeypatch.setattr("environments.inventory.backend_names", list)
    for options in ([], ["--dry-run"]):
        done = hermes_env("gc", *options, TERMINAL_ENV=file_backend.NAME)
        assert (done.returncode, done.stdout, done.stderr) == (0, "nothing to collect\n", "")


def test_a_listing_error_is_reported_and_targets_found_before_are_removed(
    hermes_env, target_files, monkeypatch
) -> None:
    monkeypatch.setattr("environments.inventory.backend_names", list)
    target_files.put("aaaa", use="orphan")
    target_files.put("abc-locked", use="orphan")
    target_files.put("broken")
    done = hermes_env("gc", "--dry-run", TERMINAL_ENV=file_backend.NAME)
    assert done.returncode == 0
    assert done.stderr == f"hermes-env: {file_backend.NAME} could not be queried: ValueError: the folder is broken\n"
    assert len(target_files.left) == 3
    done = hermes_env("gc", TERMINAL_ENV=file_backend.NAME)
    assert done.returncode == 0
    assert "removed sandbox aaaa" in done.stdout
    assert target_files.left == ["abc-locked", "broken"]
