"""This machine, where it is the one that the engine is on."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath

from environments.local_files import remove_tree, replace_file
from environments.settings import hermes_home
from environments.shell.child_stream import ChildStream
from environments.shell.host import run_there
from environments.shell.stream import Stream, Terminal
from environments.singularity.machine import (
    EXITING,
    INIT_LIMIT,
    KEPT_VARIABLES,
    MONITOR_LIMIT,
    SET_VARIABLES,
    Kind,
    Processes,
)
from environments.target import Address, this_machine

LEAVE_LIMIT = 0.3
"""Seconds a shell has to end by itself when its stream is closed."""


class ThisMachine:
    """This machine, see `Machine`."""

    place = ""
    max_streams: int | None = None

    @property
    def folder(self) -> PurePosixPath:
        """The directory for what we keep, see `Machine`."""
        return PurePosixPath(hermes_home() / "singularity")

    def reach(self) -> bool:
        """Do nothing, see `Machine`: it is here."""
        return False

    def loss(self) -> str | None:
        """Say that it is here, see `Machine`."""
        return None

    def leave(self) -> None:
        """Do nothing, see `Machine`."""

    @property
    def name(self) -> str:
        """This machine's name."""
        return this_machine()

    def way_in(self, command: Sequence[str]) -> tuple[str, ...]:
        """Return the command, see `Machine`."""
        return tuple(command)

    def address(self, host: str, port: int) -> Address:
        """Return the address as it is, see `Machine`."""
        return Address(host, port)

    def find_program(self, names: Iterable[str]) -> str | None:
        """Find a program, see `Machine`."""
        return next(filter(None, map(shutil.which, names)), None)

    def run(
        self, argv: Sequence[str], *, whole_environment: bool, on_line: Callable[[str], object] | None
    ) -> tuple[int, str]:
        """Run a program, see `Machine`."""
        done = run_there(_Starter(None if whole_environment else _variables()), argv, on_line)
        return done.exit_code, done.output + done.errors

    def open_stream(self, argv: Sequence[str], terminal: Terminal | None) -> Stream:
        """Start a program, see `Machine`."""
        return _ExecStream(argv, terminal=terminal, env=_variables(), cwd="/")

    def hold(self, pid: int, name: str) -> Processes:
        """Hold an instance's processes, see `Machine`."""
        return _Processes(pid, name)

    def absolute(self, path: str) -> PurePosixPath:
        """Return an absolute path, see `Machine`."""
        return PurePosixPath(Path(path).expanduser().absolute())

    def kind(self, path: PurePosixPath) -> Kind:
        """Say what a path leads to, see `Machine`."""
        found = Path(path)
        return "directory" if found.is_dir() else "file" if found.exists() else ""

    def size(self, path: PurePosixPath) -> int:
        """Return a file's size, see `Machine`."""
        return Path(path).stat().st_size

    def read(self, path: PurePosixPath) -> str:
        """Return what a file holds, see `Machine`."""
        try:
            return Path(path).read_text()
        except OSError:
            return ""

    def write(self, path: PurePosixPath, text: str) -> None:
        """Write a file, see `Machine`."""
        replace_file(Path(path), lambda file: file.write(text.encode()), 0o600)

    def names(self, path: PurePosixPath) -> list[str]:
        """Return what is in a directory, see `Machine`."""
        try:
            return sorted(entry.name for entry in Path(path).iterdir())
        except OSError:
            return []

    def disk_usage(self, path: PurePosixPath) -> int:
        """Return what it takes of the disk, see `Machine`."""
        asked = subprocess.run(["du", "-sk", "--", str(path)], capture_output=True, text=True, check=False)
        return int(asked.stdout.partition("\t")[0] or 0) * 1024

    def make_folder(self, path: PurePosixPath) -> None:
        """Make a directory, see `Machine`."""
        Path(path).mkdir(parents=True, exist_ok=True)

    def make_passing_folder(self) -> PurePosixPath:
        """Make a temporary directory, see `Machine`."""
        return PurePosixPath(tempfile.mkdtemp(prefix="hermes-overlay-"))

    def rename(self, old: PurePosixPath, new: PurePosixPath) -> None:
        """Move a file, see `Machine`."""
        Path(old).replace(new)

    def remove(self, *paths: PurePosixPath) -> None:
        """Remove what is there, see `Machine`."""
        for path in map(Path, paths):
            if path.is_dir():
                remove_tree(path)
            else:
                path.unlink(missing_ok=True)


THIS_MACHINE = ThisMachine()


def _variables() -> Mapping[str, str]:
    kept = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
    return kept | dict(each.split("=", 1) for each in SET_VARIABLES)


class _Starter:
    """Starts programs on this machine, see `Starter`.

    Args:
        variables: All that they see; None is what this process does.
    """

    place = "this machine"

    def __init__(self, variables: Mapping[str, str] | None) -> None:
        self._variables = variables

    def open_stream(self, argv: Sequence[str], terminal: Terminal | None = None) -> Stream:
        """Start a program, see `Starter`."""
        return ChildStream(argv, terminal=terminal, env=self._variables)

    def target_loss(self) -> str | None:
        """Say that it is here, see `Starter`."""
        return None


class _ExecStream(ChildStream):
    """A stream to `exec instance://`."""

    async def close(self) -> None:
        """Give up the stream, see `Stream.close`.

        The client is killed only if it does not leave when its shell reads end of file: what it leaves unreaped in
        the instance falls to this machine's init, and until that has reaped it the instance cannot end.
        """
        if not self._has_terminal:
            self.close_write()
            await self.exit_code(LEAVE_LIMIT)
        await super().close()


class _Processes:
    """The processes of an instance on this machine, see `Processes`."""

    def __init__(self, pid: int, name: str) -> None:
        self._pid = pid
        monitor = _parent(pid)
        # A record may be older than the machine's last start, and its number another process's. The engine's process
        # has the instance's name in its title.
        genuine = monitor is not None and f"[{name}]" in _title(monitor)
        self._init = _pidfd(pid) if genuine else None
        self._monitor = _pidfd(monitor) if genuine and monitor else None

    @property
    def running(self) -> bool:
        """Whether the first one is there, see `Processes`."""
        # The kernel kills what is in the instance when that process begins to end; its end comes after theirs.
        return self._init is not None and not _is_exiting(self._pid) and not _ended(self._init, 0)

    @property
    def have_own_network(self) -> bool:
        """Whether they are on another network, see `Processes`."""
        try:
            return Path(f"/proc/{self._pid}/ns/net").readlink() != Path("/proc/self/ns/net").readlink()
        except OSError:
            return False

    def end(self) -> bool:
        """End them, see `Processes`."""
        return _end(self._init, at_once=True, limit=INIT_LIMIT) and _end(
            self._monitor, at_once=False, limit=MONITOR_LIMIT
        )

    def release(self) -> None:
        """Let go of them, see `Processes`."""
        for descriptor in (self._init, self._monitor):
            if descriptor is not None:
                os.close(descriptor)
        self._init = self._monitor = None


def _end(descriptor: int | None, *, at_once: bool, limit: float) -> bool:
    if descriptor is None or (not at_once and _ended(descriptor, limit)):
        return True
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    return _ended(descriptor, limit)


def _pidfd(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        return None


def _ended(descriptor: int, timeout: float) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(timeout * 1000))


def _stat(pid: int) -> list[str]:
    """Return the fields that stand in /proc behind a process's name; nothing if there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _parent(pid: int) -> int | None:
    stat = _stat(pid)
    return int(stat[1]) if stat else None


def _is_exiting(pid: int) -> bool:
    stat = _stat(pid)
    return not stat or bool(int(stat[6]) & EXITING)


def _title(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
    except OSError:
        return ""
