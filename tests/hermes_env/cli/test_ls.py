"""`hermes-env ls`: the listing of targets, and listing errors."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from targets import file_backend

FILE_BACKEND = ["-b", file_backend.NAME]


def test_each_line_has_kind_task_owner_age_and_size(hermes_env, target_files) -> None:
    now = time.time()
    target_files.put("aaaa-first", task="build", state="running", use="live", created=now - 11_000, size=1_234_567)
    target_files.put("bbbb-second", use="orphan", created=now - 130, size=999)
    target_files.put(
        "c" * 40, task="other", use="elsewhere", kind="snapshot", created=now - 30 * 86400, size=12_500_000_000
    )
    done = hermes_env("ls", *FILE_BACKEND)
    assert (done.returncode, done.stderr) == (0, "")
    heading, *lines = done.stdout.splitlines()
    assert heading.split() == ["BACKEND", "KIND", "ID", "TASK", "STATE", "USE", "AGE", "SIZE"]
    assert [line.split() for line in lines] == [
        [file_backend.NAME, "snapshot", "c" * 12, "other", "kept", "elsewhere", "30", "d", "12", "GB"],
        [
            file_backend.NAME,
            "sandbox",
            "aaaa-first",
            "build",
            "running",
            "process",
            str(os.getpid()),
            "3",
            "h",
            "1.2",
            "MB",
        ],
        [file_backend.NAME, "sandbox", "bbbb-second", "kept", "orphan", "2", "min", "999", "B"],
    ]


def test_a_snapshot_is_shown_by_the_name_that_a_user_gave_it(hermes_env, target_files) -> None:
    target_files.put("aaaa", kind="snapshot", name="after-setup", task="build")
    target_files.put("bbbb", kind="snapshot", name="of-a-fork", use="live")
    target_files.put("cccc", name="a-sandbox")
    heading, *lines = hermes_env("ls", *FILE_BACKEND).stdout.splitlines()
    assert heading.split() == ["BACKEND", "KIND", "ID", "NAME", "TASK", "STATE", "USE", "AGE", "SIZE"]
    assert [line.split() for line in lines] == [
        [file_backend.NAME, "snapshot", "aaaa", "after-setup", "build", "kept", "free"],
        [file_backend.NAME, "snapshot", "bbbb", "kept", "process", str(os.getpid())],
        [file_backend.NAME, "sandbox", "cccc", "kept", "free"],
    ]


def test_json_is_a_list_with_all_that_is_known(hermes_env, target_files) -> None:
    target_files.put("d" * 40, name="called", place="far", task="build", use="live", created=1000, size=7)
    target_files.put("nothing-known")
    done = hermes_env("ls", *FILE_BACKEND, "--json")
    unknown, known = json.loads(done.stdout)
    assert known.pop("age_seconds") > 1e9
    assert known == {
        "backend": file_backend.NAME,
        "kind": "sandbox",
        "id": "d" * 40,
        "name": "called",
        "place": "far",
        "task": "build",
        "state": "kept",
        "use": "live",
        "pid": os.getpid(),
        "created": 1000,
        "size_bytes": 7,
    }
    assert [unknown[name] for name in ("age_seconds", "created", "size_bytes", "pid")] == [None] * 4


def test_only_a_tasks_own_is_shown_on_request(hermes_env, target_files) -> None:
    target_files.put("first", task="build")
    target_files.put("second", task="builder")
    assert [each["id"] for each in json.loads(hermes_env("ls", *FILE_BACKEND, "--task", "build", "--json").stdout)] == [
        "first"
    ]


def test_an_empty_listing_is_a_message_and_in_json_an_empty_list(hermes_env, target_files) -> None:
    done = hermes_env("ls", *FILE_BACKEND)
    assert (done.stdout, done.stderr, done.returncode) == ("", "no targets\n", 0)
    assert json.loads(hermes_env("ls", *FILE_BACKEND, "--json").stdout) == []


def test_names_from_a_target_do_nothing_to_the_terminal(hermes_env, target_files) -> None:
    target_files.put("first", task="\x1b]0;title\x07[bold]build[/bold]\n", place="\x1b[2J")
    done = hermes_env("ls", *FILE_BACKEND)
    assert "\x1b" not in done.stdout and "title" not in done.stdout
    assert "[bold]build[/bold]" in done.stdout


def test_a_listing_error_of_a_named_backend_is_an_error(hermes_env, target_files) -> None:
    target_files.put("broken")
    done = hermes_env("ls", *FILE_BACKEND)
    assert (done.stdout, done.returncode) == ("", 125)
    assert "the folder is broken" in done.stderr and "Traceback" not in done.stderr
    done = hermes_env("ls", "-b", "dokcer")
    assert done.returncode == 2
    assert "did you mean 'docker'?" in done.stderr


def test_a_listing_error_of_one_backend_is_a_line(hermes_env, target_files, tmp_path: Path) -> None:
    target_files.put("aaaa", task="found before")
    target_files.put("broken")
    done = hermes_env("ls", "--json", TERMINAL_ENV=file_backend.NAME, DOCKER_HOST=f"unix://{tmp_path}/no.sock")
    assert done.returncode == 0
    assert "found before" in [each["task"] for each in json.loads(done.stdout)]
    lines = done.stderr.splitlines()
    assert f"hermes-env: {file_backend.NAME} could not be queried: ValueError: the folder is broken" in lines
    (docker,) = [line for line in lines if line.startswith("hermes-env: docker could not be queried: ")]
    assert "no.sock" in docker
    assert len(lines) == 2
