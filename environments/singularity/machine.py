"""The machine that the engine is on, as far as instances need it: this one, or another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import PurePosixPath
from typing import Literal, Protocol

from environments.shell.stream import Stream, Terminal
from environments.target import Address

INIT_LIMIT = 10.0
"""Seconds in which the processes of an instance must be gone after KILL."""
MONITOR_LIMIT = 60.0
"""Seconds the engine's process may take to clean up. Removing an unpacked image is many files."""
EXITING = 0x4
"""PF_EXITING among the flags of a process, see proc(5)."""
KEPT_VARIABLES = (
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "TMPDIR",
    "DBUS_SESSION_BUS_ADDRESS",  # by which limits are set without root
    *("XDG_CONFIG_HOME", "XDG_RUNTIME_DIR"),
    *(f"{name}_{what}" for name in ("APPTAINER", "SINGULARITY") for what in ("CONFIGDIR", "CACHEDIR", "TMPDIR")),
)
"""What the client needs to find its own files. The rest of its variables are options, such as binds, that nobody
asked for here, or go into the container."""
SET_VARIABLES = ("APPTAINER_NO_EVAL=1", "SINGULARITY_NO_EVAL=1")
"""A $( ) in a value would be run."""

Kind = Literal["", "file", "directory"]


class Processes(Protocol):
    """The two processes of an instance, held so that a number of theirs that is given out anew does not mislead."""

    @property
    def running(self) -> bool:
        """Whether the first process is there, and is not about to end."""

    @property
    def have_own_network(self) -> bool:
        """Whether they are on another network than their machine."""

    def end(self) -> bool:
        """Kill all, wait until the engine's process has cleaned up, and return whether they are gone."""

    def release(self) -> None:
        """Let go of them."""


class Machine(Protocol):
    """A machine with the engine. What needs the machine itself raises TerminalError where it cannot be reached."""

    @property
    def place(self) -> str:
        """Where it is, to tell it from others; empty for this machine."""

    @property
    def max_streams(self) -> int | None:
        """How many streams to it there should be at once; None is as many as are asked for."""

    @property
    def folder(self) -> PurePosixPath:
        """The directory for what we keep there. It need not be there yet."""

    def reach(self) -> bool:
        """Connect to it where that is needed, and return whether the link had been lost."""

    def loss(self) -> str | None:
        """Say why it cannot be reached any more; None while it can."""

    def leave(self) -> None:
        """Disconnect from it, for good."""

    @property
    def name(self) -> str:
        """The name or address of the machine, without who logs in there."""

    def way_in(self, command: Sequence[str]) -> tuple[str, ...]:
        """Return what a person runs here to have a command run there on a terminal, see `Target.enter`."""

    def address(self, host: str, port: int) -> Address:
        """Return where a port can be reached from here that the machine can reach, see `BaseEnvironment.address`."""

    def find_program(self, names: Iterable[str]) -> str | None:
        """Return the path of the first of some programs that is there."""

    def run(
        self, argv: Sequence[str], *, whole_environment: bool, on_line: Callable[[str], object] | None
    ) -> tuple[int, str]:
        """Run a program, and return its exit code and what it printed, its standard output first.

        When the start that the current thread is at is stopped, the program is ended with all that it has started.

        Args:
            argv: The program and its arguments.
            whole_environment: Whether it sees all variables there, and not `KEPT_VARIABLES` alone.
            on_line: Told of each line as it comes.

        Raises:
            StartStoppedError: It was ended.
        """

    def open_stream(self, argv: Sequence[str], terminal: Terminal | None) -> Stream:
        """Start a program that sees `KEPT_VARIABLES` alone, and ends by itself when its input does."""

    def hold(self, pid: int, name: str) -> Processes:
        """Hold the processes of an instance, by the number of its first one and its name."""

    def absolute(self, path: str) -> PurePosixPath:
        """Return a path that begins with `/`, for one that may begin with `~` too."""

    def kind(self, path: PurePosixPath) -> Kind:
        """Say what a path leads to; empty if to nothing."""

    def size(self, path: PurePosixPath) -> int:
        """Return the size of a file in bytes."""

    def read(self, path: PurePosixPath) -> str:
        """Return what a small file holds; nothing where it cannot be read."""

    def write(self, path: PurePosixPath, text: str) -> None:
        """Write a small file, which other users there may see being written."""

    def names(self, path: PurePosixPath) -> list[str]:
        """Return what is in a directory; nothing where there is none."""

    def disk_usage(self, path: PurePosixPath) -> int:
        """Return the bytes of disk that a file, or a directory with all in it, takes, as far as it may be looked at."""

    def make_folder(self, path: PurePosixPath) -> None:
        """Make a directory, with those above it."""

    def make_passing_folder(self) -> PurePosixPath:
        """Make a directory of a new name, for temporary files."""

    def rename(self, old: PurePosixPath, new: PurePosixPath) -> None:
        """Move a file, in the place of another if there is one."""

    def remove(self, *paths: PurePosixPath) -> None:
        """Remove files and directories, as far as they are there."""
