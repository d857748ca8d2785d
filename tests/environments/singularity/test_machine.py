"""Queries of the engine's machine by shell texts, run on this machine, and instances made of other processes."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import psutil
import pytest

from environments import TerminalError
from environments.singularity.client import Client
from environments.singularity.instance import Instance, Record
from environments.singularity.machine import THIS_MACHINE as MACHINE

ODD = ' a\'b "c" $HOME *\n[ü]'
MONITOR = """
import subprocess
with subprocess.Popen(["sleep", "1000"]) as child:
    print(child.pid, flush=True)
"""


def test_paths_are_found_with_their_kinds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / ODD).mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "dangling").symlink_to("none")
    asked = [str(tmp_path / ODD), "~/file", "file", "~", "dangling", "/none", "-n"]
    assert [kind for _, kind in MACHINE.resolve_paths(*asked)] == ["directory", "file", "file", "directory", "", "", ""]
    assert [str(path) for path, _ in MACHINE.resolve_paths(*asked)] == [
        *(f"{tmp_path}/{ODD}", f"{tmp_path}/file", f"{tmp_path}/file", str(tmp_path)),
        *(f"{tmp_path}/dangling", "/none", f"{tmp_path}/-n"),
    ]


def test_files_are_written_read_moved_and_removed(tmp_path: Path) -> None:
    folder = PurePosixPath(tmp_path, ODD, "below")
    MACHINE.make_folder(folder)
    file, other = folder / "-file", folder / "other"
    MACHINE.write(file, f"{ODD}\n\n")
    assert Path(file).stat().st_mode & 0o777 == 0o600
    assert MACHINE.read_all(file, other) == [f"{ODD}\n\n", ""]
    assert MACHINE.size(file) == len(f"{ODD}\n\n".encode())
    MACHINE.rename(file, other)
    assert MACHINE.names(folder) == ["other"]
    assert MACHINE.names(file) == []
    assert MACHINE.disk_usage(folder) > 0 == MACHINE.disk_usage(file)
    MACHINE.remove(folder, file)
    assert not Path(folder).exists()
    with pytest.raises(TerminalError, match=r"backend 'singularity': .*No such file"):
        MACHINE.size(file)


def test_a_program_is_found_by_its_absolute_path_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "second").symlink_to("/bin/true")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert MACHINE.find_program(["first", "second"]) == str(tmp_path / "second")
    assert MACHINE.find_program(["first", "cd"]) is None


@pytest.fixture
def record(tmp_path: Path) -> Iterator[Record]:
    """Start a process like an instance, below a process with the name in its title; return its record."""
    command = [sys.executable, "-c", MONITOR, "[name]"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as monitor:
        assert monitor.stdout
        pid = int(monitor.stdout.readline())
        yield Record("name", pid, (PurePosixPath(tmp_path, "log"),))
        with contextlib.suppress(psutil.NoSuchProcess):
            psutil.Process(pid).kill()
        monitor.kill()


@pytest.fixture
def client(tmp_path: Path) -> Client:
    """Make an engine program without instances."""
    program = tmp_path / "engine"
    program.write_text("#!/bin/sh\necho '{}'\n")
    program.chmod(0o755)
    return Client(str(program), MACHINE)


def test_an_instance_is_ended_with_its_monitor_and_its_logs(record: Record, client: Client) -> None:
    Path(record.logs[0]).touch()
    instance, first = Instance.of(client, record), psutil.Process(record.pid)
    assert instance.is_running(MACHINE)
    assert not (instance.has_own_network or instance.has_own_cgroup or instance.memory_kills(MACHINE))
    instance.end(client)
    assert not instance.is_running(MACHINE)
    assert not first.is_running()
    assert not Path(record.logs[0]).exists()
    instance.end(client)


def test_another_process_with_the_pid_of_an_instance_is_left_alone(record: Record, client: Client) -> None:
    monitor = Instance.of(client, record).processes[1]
    of_another_name = Instance.of(client, Record("another", record.pid, ()))
    of_another_time = Instance(record, ("1", monitor, "1"), False, "", False)
    for instance in (of_another_name, of_another_time):
        assert not instance.is_running(MACHINE)
        instance.end(client)
    assert psutil.Process(record.pid).is_running()
