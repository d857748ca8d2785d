"""The file of a record: permissions, whole lines, and failed writes."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from targets.run_record import RunRecord

from environments import BaseEnvironment, create_environment
from environments.errors import SettingsError
from environments.observation.record import RecordFile

SIZE = 30_000


def make_environment(path: Path) -> BaseEnvironment:
    return create_environment("local", record=path)


def test_a_new_file_is_private_and_an_existing_file_is_appended_to(path: Path, tmp_path: Path):
    before = os.umask(0)
    try:
        with make_environment(path) as env:
            env.execute("true")
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    first = path.read_text()
    path.chmod(0o640)
    with make_environment(path) as env:
        env.execute("true")
    assert path.read_text().startswith(first) and stat.S_IMODE(path.stat().st_mode) == 0o640
    assert len(RunRecord(path).kind("command")) == 2


def test_a_relative_path_is_resolved_when_the_environment_is_made(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    with create_environment("local", record="run.jsonl") as env, create_environment("local", record="~/home") as other:
        monkeypatch.chdir("/")
        env.execute("true")
        other.execute("true")
    assert RunRecord(path).one("command") and RunRecord(tmp_path / "home").one("command")


def test_a_link_is_not_followed(path: Path, tmp_path: Path):
    (tmp_path / "elsewhere").write_text("mine")
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SettingsError, match="it is a link; give the path of another file"):
        make_environment(path)
    path.unlink()
    path.symlink_to(tmp_path / "not there")
    with pytest.raises(SettingsError, match="it is a link"):
        make_environment(path)
    assert (tmp_path / "elsewhere").read_text() == "mine" and not (tmp_path / "not there").exists()


def test_a_path_that_is_no_regular_file_is_refused_at_once(path: Path, tmp_path: Path):
    with pytest.raises(SettingsError, match="Is a directory"):
        make_environment(tmp_path)
    with pytest.raises(SettingsError, match="No such file or directory"):
        make_environment(tmp_path / "none" / "run.jsonl")
    os.mkfifo(path)
    with pytest.raises(SettingsError, match="No such device or address"):
        make_environment(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with pytest.raises(SettingsError, match="it is no regular file"):
        make_environment(path)
    os.close(reader)


def test_a_file_of_another_user_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch):
    path.touch()
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(SettingsError, match="it belongs to another user"):
        make_environment(path)


def test_lines_of_many_threads_and_environments_stay_whole(path: Path):
    with make_environment(path) as env, make_environment(path) as other, ThreadPoolExecutor(8) as threads:
        for place in (env, other):
            list(threads.map(lambda n, place=place: place.execute_oneshot(f"printf '%0{SIZE}d' {n}"), range(20)))
    seen = RunRecord(path)
    assert len(seen.of("run")) == 1 and len(seen.kind("command")) == 40
    assert {len(each["output"]) for each in seen.kind("command")} == {SIZE}
    assert {each["environment"] for each in seen.kind("command")} == {"local 1", "local 2"}


FORKS = """
import os, sys
from environments import create_environment
from environments.observation.record import Recorder
env = create_environment("local", record=sys.argv[1])
env.execute("echo parent")
if os.fork() == 0:
    with create_environment("local", record=sys.argv[1]) as own:
        own.execute("echo child")
    os._exit(0)
assert os.wait()[1] == 0
env.cleanup()
"""


def test_a_forked_process_has_a_run_of_its_own(path: Path):
    subprocess.run([sys.executable, "-W", "ignore", "-c", FORKS, path], check=True)
    seen = RunRecord(path)
    parent, child = seen.kind("command")
    assert parent["run"] != child["run"] and parent["id"] != child["id"]
    assert len({each["pid"] for each in seen.of("run")}) == 2


FILLS = """
import os, resource, signal, sys
from environments import create_environment
with create_environment("local", record=sys.argv[1]) as env:
    env.execute("echo first")
    size = resource.getrlimit(resource.RLIMIT_FSIZE)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    in_the_next_line = os.path.getsize(sys.argv[1]) + 100
    resource.setrlimit(resource.RLIMIT_FSIZE, (in_the_next_line, size[1]))
    for n in range(5):
        print(env.execute(f"echo {n}").output, end="")
    resource.setrlimit(resource.RLIMIT_FSIZE, size)
    env.execute("echo last")
"""


def test_a_full_disk_stops_nothing_and_is_one_warning_and_one_torn_line(path: Path):
    done = subprocess.run([sys.executable, "-c", FILLS, path], check=True, capture_output=True, text=True)
    assert done.stdout == "0\n1\n2\n3\n4\n"
    assert done.stderr.count("cannot be written any more") == 1
    lines = path.read_text().splitlines(keepends=True)
    torn = [line for line in lines if not line.endswith("}\n")]
    assert len(torn) == 1 and "echo last" in lines[-1 - 1]


def test_a_deleted_file_stops_nothing_and_is_not_made_again(path: Path, caplog: pytest.LogCaptureFixture):
    with make_environment(path) as env:
        path.unlink()
        assert env.execute("echo on").output == env.execute("echo on").output == "on\n"
    (warning,) = caplog.records
    assert "cannot be written any more, and has gaps: No such file" in warning.getMessage() and not path.exists()


def test_a_short_write_and_a_failed_write_cost_only_their_own_line(path: Path, monkeypatch: pytest.MonkeyPatch):
    file, write = RecordFile(path), os.write

    def half(descriptor: int, data: bytes) -> int:
        if data.startswith(b"fails"):
            raise OSError(errno.ENOSPC, "full")
        return write(descriptor, data[:3] if data.startswith(b"short") else data)

    monkeypatch.setattr(os, "write", half)
    for line in (b"one\n", b"short\n", b"two\n", b"fails\n", b"three\n"):
        file.append(line)
    assert path.read_bytes() == b"one\nsho\ntwo\nthree\n"
