"""Access to the engine's machine: short shell scripts over streams of a host.

The host is this machine, with child processes, or another machine, over the streams of a link.
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
"""Seconds for a local program to end after its input is closed."""
_KEPT_VARIABLES = (
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "TMPDIR",
    "DBUS_SESSION_BUS_ADDRESS",  # for setting limits without root
    *("XDG_CONFIG_HOME", "XDG_RUNTIME_DIR"),
    *(f"{name}_{kind}" for name in ("APPTAINER", "SINGULARITY") for kind in ("CONFIGDIR", "CACHEDIR", "TMPDIR")),
)
"""Variables that the engine needs to find its own files. Other variables act as options, such as binds that no setting
asks for, or reach the container."""
_SET_VARIABLES = ("APPTAINER_NO_EVAL=1", "SINGULARITY_NO_EVAL=1")
"""Without these, the engine runs a $( ) in a value."""
CLEAN_ENVIRONMENT = " ".join(
    ["exec env -i", *_SET_VARIABLES, *(f'${{{name}+"{name}=${name}"}}' for name in _KEPT_VARIABLES), '"$@"']
)
"""Shell text that runs its parameters as a program with only these variables."""
# Finds a program on PATH. On another machine, the PATH of a login shell is searched too, which may be longer.
_FIND = """\
login=$1; shift
for name do command -v "$name" && exit; done
[ -z "$login" ] || "${SHELL:-/bin/sh}" -lc "$(for name do printf 'command -v %s || ' "$name"; done) true" sh \\
    </dev/null 2>/dev/null | grep '^/' | tail -n 1
"""
_FOLDER = 'printf %s "${HERMES_HOME:-$HOME/.hermes}/singularity"'
_RESOLVE = """\
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
    """This machine as a host, see `RemoteHost`. It is always connected."""

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
        # A killed engine program leaves unreaped processes in the instance to this machine's init, and the instance
        # cannot end until init has reaped them. So the program first gets the chance to end at its end of input.
        if not self._has_terminal:
            self.close_write()
            await self.exit_code(LEAVE_LIMIT)
        await super().close()


class Machine:
    """A machine with the engine. Methods that reach the machine raise TerminalError if the link is lost.

    Args:
        host: Opens streams to the machine.
    """

    def __init__(self, host: RemoteHost) -> None:
        self.host = host
        self._is_reached = False
        self._folder: PurePosixPath | None = None

    # The link.

    @property
    def place(self) -> str:
        """The address, different from other machines' addresses; empty for this machine."""
        return self.host.place

    @property
    def where(self) -> str:
        """` on ADDRESS`, for messages; empty for this machine."""
        return f" on {self.place}" if self.place else ""

    @property
    def name(self) -> str:
        """Name or address of the machine, without the login's user."""
        return self.place.rpartition("@")[2].rpartition(":")[0] or this_machine()

    def reach(self) -> bool:
        """Connect unless connected. Returns True if the link had been lost."""
        lost = self.loss() is not None
        if lost or not self._is_reached:
            self.host.start_target()
            self._is_reached = True
        return lost

    def loss(self) -> str | None:
        """Return the reason for the loss of the link; None while it is alive."""
        return self.host.target_loss() if self._is_reached else None

    # Programs.

    def open_stream(self, argv: Sequence[str], terminal: Terminal | None, check: str, *arguments: str) -> Stream:
        """Start a program in `/` with only the variables that the engine needs to find files.

        Args:
            argv: The program and its arguments.
            terminal: The size of its terminal; None is pipes.
            check: Shell text to run before; may exit.
            arguments: Positional parameters for that text; it must shift them away.
        """
        text = f"{check}\ncd /\n{CLEAN_ENVIRONMENT}"
        return self.host.open_stream(["/bin/sh", "-c", text, "sh", *arguments, *argv], terminal)

    def run_script(self, script: str, *arguments: str) -> str:
        """Run shell text and return its output.

        Raises:
            TerminalError: The text failed.
        """
        done = run_there(self.host, ["/bin/sh", "-c", script, "sh", *arguments], guarded=False)
        if done.exit_code != 0:
            why = done.errors.strip() or f"a command ended with exit code {done.exit_code}"
            raise TerminalError(f"backend 'singularity'{self.where}: {why}")
        return done.output

    def find_program(self, names: Iterable[str]) -> str | None:
        """Return the path of the first program found on PATH; on another machine, also on a login shell's PATH."""
        found = self.run_script(_FIND, self.place, *names).strip()
        return found if found.startswith("/") else None

    # Files.

    @property
    def folder(self) -> PurePosixPath:
        """The directory of our files on the machine; may be missing."""
        if not self.place:
            return PurePosixPath(hermes_home().absolute() / "singularity")
        self._folder = self._folder or PurePosixPath(self.run_script(_FOLDER))
        return self._folder

    def resolve_paths(self, *paths: str) -> list[tuple[PurePosixPath, str]]:
        """Return each path as an absolute path, with its kind. A relative path on another machine begins at the home.

        The kind is `directory`, `file` for all other files, and empty for a missing path.
        """
        fields = self.run_script(_RESOLVE, self.place, *paths).split("\0")
        return [(PurePosixPath(path), kind) for path, kind in zip(fields[::2], fields[1::2], strict=False)]

    def kind(self, path: PurePosixPath) -> str:
        """Return the kind of a path, see `resolve_paths`."""
        return self.resolve_paths(str(path))[0][1]

    def size(self, path: PurePosixPath) -> int:
        """Return the size of a file in bytes."""
        return int(self.run_script('stat -c %s -- "$1"', str(path)))

    def disk_usage(self, path: PurePosixPath) -> int:
        """Return the disk usage of a file or directory in bytes, as far as it may be read."""
        return int(self.run_script('du -sk -- "$1" 2>/dev/null || :', str(path)).partition("\t")[0] or 0) * 1024

    def read_all(self, *paths: PurePosixPath) -> list[str]:
        """Return the text of some small files; empty for unreadable files."""
        return self.run_script(_READ, *map(str, paths)).split("\0")[:-1]

    def write(self, path: PurePosixPath, text: str) -> None:
        """Write a small file, not atomically."""
        self.run_script('umask 077; printf %s "$2" >"$1"', str(path), text)

    def names(self, path: PurePosixPath) -> list[str]:
        """Return the names in a directory; empty for a missing directory."""
        return self.run_script('ls -A -- "$1" 2>/dev/null || :', str(path)).split("\n")[:-1]

    def make_folder(self, path: PurePosixPath) -> None:
        """Create a directory, with its parents."""
        self.run_script('mkdir -p -- "$1"', str(path))

    def make_temporary_folder(self) -> PurePosixPath:
        """Create a temporary directory with a new name."""
        return PurePosixPath(self.run_script('mktemp -d "${TMPDIR:-/tmp}/hermes-overlay-XXXXXX"').strip())

    def rename(self, old: PurePosixPath, new: PurePosixPath) -> None:
        """Move a file, replacing another."""
        self.run_script('mv -f -- "$1" "$2"', str(old), str(new))

    def remove(self, *paths: PurePosixPath) -> None:
        """Remove files and directories, as far as they exist."""
        self.run_script('chmod -R u+rwX -- "$@" 2>/dev/null; rm -rf -- "$@"', *map(str, paths))


THIS_MACHINE = Machine(_ThisMachine())


def machine_of(settings: EnvironmentSettings) -> Machine:
    """Return the machine of the settings, not yet connected."""
    host = host_of(settings)
    return Machine(host) if host else THIS_MACHINE


@contextlib.contextmanager
def connected(settings: EnvironmentSettings) -> Iterator[Machine]:
    """Provide the machine of the settings, connected during the block.

    Raises:
        EnvironmentStartError: The machine cannot be reached.
    """
    machine = machine_of(settings)
    try:
        machine.reach()
        yield machine
    finally:
        machine.host.stop_target()
