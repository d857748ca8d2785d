"""The machine that the engine is on. Everything is asked by short shell texts, over streams that a host opens.

The host is this machine, whose streams are child processes, or another one, whose streams are those of a link.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePosixPath

from environments.errors import TerminalError
from environments.settings import EnvironmentSettings, hermes_home
from environments.shell.child_stream import ChildStream
from environments.shell.host import RemoteHost, host_of, run_there
from environments.shell.stream import Stream, Terminal
from environments.target import Address, this_machine

LEAVE_LIMIT = 0.3
"""Seconds a program of this machine has to end by itself when its stream is closed."""
_KEPT_VARIABLES = (
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "TMPDIR",
    "DBUS_SESSION_BUS_ADDRESS",  # by which limits are set without root
    *("XDG_CONFIG_HOME", "XDG_RUNTIME_DIR"),
    *(f"{name}_{what}" for name in ("APPTAINER", "SINGULARITY") for what in ("CONFIGDIR", "CACHEDIR", "TMPDIR")),
)
"""Variables that the engine needs to find its own files. Others are options, such as binds, that no setting asks for,
or go into the container."""
_SET_VARIABLES = ("APPTAINER_NO_EVAL=1", "SINGULARITY_NO_EVAL=1")
"""Without them, a $( ) in a value is run."""
ONLY_KEPT = " ".join(
    ["exec env -i", *_SET_VARIABLES, *(f'${{{name}+"{name}=${name}"}}' for name in _KEPT_VARIABLES), '"$@"']
)
"""Shell text that runs its parameters as a program with these variables alone."""
# Of a program on another machine's PATH: a shell without a login may have less there than a person sees.
_FIND = """\
login=$1; shift
for name do command -v "$name" && exit; done
[ -z "$login" ] || "${SHELL:-/bin/sh}" -lc "$(for name do printf 'command -v %s || ' "$name"; done) true" sh \\
    </dev/null 2>/dev/null | grep '^/' | tail -n 1
"""
_FOLDER = 'printf %s "${HERMES_HOME:-$HOME/.hermes}/singularity"'
_LOOK = """\
[ -z "$1" ] || cd || exit
shift
for path do
    case $path in
    '~' | '~/'*) path=$HOME${path#'~'} ;;
    /*) ;;
    *) path=$PWD/$path ;;
    esac
    if [ -d "$path" ]; then kind=directory; elif [ -e "$path" ]; then kind=file; else kind=; fi
    printf '%s\\0%s\\0' "$path" "$kind"
done
"""
_READ = """for path do cat -- "$path" 2>/dev/null; printf '\\0'; done"""


class _ThisMachine:
    """This machine as a host, see `RemoteHost`. It is always up."""

    place = ""
    max_streams: int | None = None

    def start_target(self) -> None: ...

    def stop_target(self) -> None: ...

    def target_loss(self) -> None: ...

    def open_stream(self, argv: Sequence[str], terminal: Terminal | None = None) -> Stream:
        return _LocalStream(argv, terminal=terminal)

    def login_command(self, command: Sequence[str] = ()) -> tuple[str, ...]:
        return tuple(command)

    def forwarded(self, host: str, port: int) -> Address:
        return Address(host, port)


class _LocalStream(ChildStream):
    async def close(self) -> None:
        """Close the stream, see `Stream.close`.

        The engine's program is killed only if it does not end when its shell reads end of file: processes that it
        leaves unreaped in an instance fall to this machine's init, and until that has reaped them the instance cannot
        end.
        """
        if not self._has_terminal:
            self.close_write()
            await self.exit_code(LEAVE_LIMIT)
        await super().close()


class Machine:
    """A machine with the engine. Methods that ask it raise TerminalError if it cannot be reached.

    Args:
        host: Opens streams to it.
    """

    def __init__(self, host: RemoteHost) -> None:
        self.host = host
        self._is_reached = False
        self._folder: PurePosixPath | None = None

    # The link to it.

    @property
    def place(self) -> str:
        """Its address, to tell it from others; empty for this machine."""
        return self.host.place

    @property
    def where(self) -> str:
        """` on ADDRESS`, for messages; empty for this machine."""
        return f" on {self.place}" if self.place else ""

    @property
    def name(self) -> str:
        """The name or address of the machine, without the user that logs in there."""
        return self.place.rpartition("@")[2].rpartition(":")[0] or this_machine()

    def reach(self) -> bool:
        """Connect to it where that is needed, and return whether the link had been lost."""
        lost = self.loss() is not None
        if lost or not self._is_reached:
            self.host.start_target()
            self._is_reached = True
        return lost

    def loss(self) -> str | None:
        """Return the reason if it cannot be reached any more."""
        return self.host.target_loss() if self._is_reached else None

    # Programs.

    def open_stream(self, argv: Sequence[str], terminal: Terminal | None, check: str, *arguments: str) -> Stream:
        """Start a program in `/` that sees the variables by which the engine finds files, and no other.

        Args:
            argv: The program and its arguments.
            terminal: The size of a terminal to give it; None is pipes.
            check: Shell text that is run before it, and that may exit.
            arguments: The positional parameters of that text, which it shifts away.
        """
        text = f"{check}\ncd /\n{ONLY_KEPT}"
        return self.host.open_stream(["/bin/sh", "-c", text, "sh", *arguments, *argv], terminal)

    def ask(self, script: str, *arguments: str) -> str:
        """Return the output of shell text.

        Raises:
            TerminalError: It failed.
        """
        done = run_there(self.host, ["/bin/sh", "-c", script, "sh", *arguments], guarded=False)
        if done.exit_code != 0:
            why = done.errors.strip() or f"a command ended with exit code {done.exit_code}"
            raise TerminalError(f"backend 'singularity'{self.where}: {why}")
        return done.output

    def find_program(self, names: Iterable[str]) -> str | None:
        """Return the path of the first of some programs on PATH; on another machine also on a login shell's."""
        found = self.ask(_FIND, self.place, *names).strip()
        return found if found.startswith("/") else None

    # Files.

    @property
    def folder(self) -> PurePosixPath:
        """The directory of our own files there, which need not exist yet."""
        if not self.place:
            return PurePosixPath(hermes_home().absolute() / "singularity")
        self._folder = self._folder or PurePosixPath(self.ask(_FOLDER))
        return self._folder

    def look(self, *paths: str) -> list[tuple[PurePosixPath, str]]:
        """Return each path as an absolute one, with its kind. A relative one begins at the home of another machine.

        The kind is `directory`, `file` for all others, and empty if there is nothing.
        """
        fields = self.ask(_LOOK, self.place, *paths).split("\0")
        return [(PurePosixPath(path), kind) for path, kind in zip(fields[::2], fields[1::2], strict=False)]

    def kind(self, path: PurePosixPath) -> str:
        """Return the kind of a path, see `look`."""
        return self.look(str(path))[0][1]

    def size(self, path: PurePosixPath) -> int:
        """Return the size of a file in bytes."""
        return int(self.ask('stat -c %s -- "$1"', str(path)))

    def disk_usage(self, path: PurePosixPath) -> int:
        """Return the bytes of disk that a file or a directory takes, as far as it may be read."""
        return int(self.ask('du -sk -- "$1" 2>/dev/null || :', str(path)).partition("\t")[0] or 0) * 1024

    def read_all(self, *paths: PurePosixPath) -> list[str]:
        """Return the text of each of some small files; nothing of one that cannot be read."""
        return self.ask(_READ, *map(str, paths)).split("\0")[:-1]

    def write(self, path: PurePosixPath, text: str) -> None:
        """Write a small file, which other users there may see being written."""
        self.ask('umask 077; printf %s "$2" >"$1"', str(path), text)

    def names(self, path: PurePosixPath) -> list[str]:
        """Return the names in a directory; nothing if there is none."""
        return self.ask('ls -A -- "$1" 2>/dev/null || :', str(path)).split("\n")[:-1]

    def make_folder(self, path: PurePosixPath) -> None:
        """Make a directory, with its parents."""
        self.ask('mkdir -p -- "$1"', str(path))

    def make_temporary_folder(self) -> PurePosixPath:
        """Make a directory of a new name, for temporary files."""
        return PurePosixPath(self.ask('mktemp -d "${TMPDIR:-/tmp}/hermes-overlay-XXXXXX"').strip())

    def rename(self, old: PurePosixPath, new: PurePosixPath) -> None:
        """Move a file, over another if there is one."""
        self.ask('mv -f -- "$1" "$2"', str(old), str(new))

    def remove(self, *paths: PurePosixPath) -> None:
        """Remove files and directories, as far as they exist."""
        self.ask('chmod -R u+rwX -- "$@" 2>/dev/null; rm -rf -- "$@"', *map(str, paths))


THIS_MACHINE = Machine(_ThisMachine())


def machine_of(settings: EnvironmentSettings) -> Machine:
    """Return the machine that settings lead to, which may have to be reached first."""
    host = host_of(settings)
    return Machine(host) if host else THIS_MACHINE


@contextlib.contextmanager
def reached(settings: EnvironmentSettings) -> Iterator[Machine]:
    """Reach the machine that settings lead to, for as long as the block lasts.

    Raises:
        EnvironmentStartError: It cannot be reached.
    """
    machine = machine_of(settings)
    try:
        machine.reach()
        yield machine
    finally:
        machine.host.stop_target()
