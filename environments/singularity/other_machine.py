"""Another machine, where it is the one that the engine is on: everything by short commands there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import PurePosixPath

from environments.errors import TerminalError
from environments.shell.host import RemoteHost, run_there
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
from environments.target import Address

# A shell that nobody logs in to may have less on its PATH than a person sees there.
_FIND = """\
find() { for name do command -v "$name" && return; done; }
find "$@" && exit
"${SHELL:-/bin/sh}" -lc "$(for name do printf 'command -v %s || ' "$name"; done) true" sh </dev/null 2>/dev/null |
    grep '^/' | tail -n 1
"""
_FOLDER = 'printf %s "${HERMES_HOME:-$HOME/.hermes}/singularity"'
_ABSOLUTE = """\
case $1 in
/*) printf %s "$1" ;;
'~') printf %s "$HOME" ;;
'~/'*) printf %s "$HOME/${1#'~/'}" ;;
*) printf %s "$HOME/$1" ;;
esac
"""
_KIND = 'if [ -d "$1" ]; then printf directory; elif [ -e "$1" ]; then printf file; fi'
_ONLY_KEPT = " ".join(
    ["exec env -i", *SET_VARIABLES, *(f'${{{name}+"{name}=${name}"}}' for name in KEPT_VARIABLES), '"$@"']
)

# The fields of /proc/PID/stat behind the process's name are 1 its state, 2 its parent, 7 its flags, 20 its start.
_SEE = f"""\
see() {{
    stat=$(cat "/proc/$1/stat" 2>/dev/null) || return
    set -- ${{stat##*)}}
    parent=$2 start=${{20}}
    [ "$1" != Z ] && [ $(($7 & {EXITING})) = 0 ]
}}
"""
_HOLD = f"""\
{_SEE}
see "$1" || exit
first=$start monitor=$parent
see "$monitor" || exit
case $(tr '\\0' ' ' <"/proc/$monitor/cmdline") in *"[$2]"*) echo "$first $monitor $start" ;; esac
"""
_RUNNING = f"""\
{_SEE}
if see "$1" && [ "$start" = "$2" ]; then echo yes; fi
"""
_OWN_NETWORK = '[ "$(readlink "/proc/$1/ns/net")" = "$(readlink /proc/self/ns/net)" ] || echo own'
_END = f"""\
there() {{
    stat=$(cat "/proc/$1/stat" 2>/dev/null) && [ -n "$stat" ] || return
    begun=$2
    set -- ${{stat##*)}}
    [ "$1" != Z ] && [ "$1" != X ] && [ "${{20}}" = "$begun" ]
}}
gone() {{
    left=$(($3 * 20))
    while there "$1" "$2"; do
        [ $left -gt 0 ] || return
        left=$((left - 1))
        sleep 0.05
    done
}}
if there "$1" "$2"; then
    kill -KILL "$1" 2>/dev/null
    gone "$1" "$2" {INIT_LIMIT:.0f} || exit 0
fi
if ! gone "$3" "$4" {MONITOR_LIMIT:.0f}; then
    kill -KILL "$3" 2>/dev/null
    gone "$3" "$4" {MONITOR_LIMIT:.0f} || exit 0
fi
echo gone
"""


class OtherMachine:
    """A machine that another environment leads to, see `Machine`.

    Args:
        host: That environment.
    """

    def __init__(self, host: RemoteHost) -> None:
        self._host = host
        self._reached = False
        self._folder: PurePosixPath | None = None

    @property
    def place(self) -> str:
        """Where it is, see `Machine`."""
        return self._host.place

    @property
    def max_streams(self) -> int | None:
        """How many streams there should be at once, see `Machine`."""
        return self._host.max_streams

    @property
    def folder(self) -> PurePosixPath:
        """The directory for what we keep there, see `Machine`: below its user's home."""
        self._folder = self._folder or PurePosixPath(self._ask(_FOLDER))
        return self._folder

    def reach(self) -> bool:
        """Connect, or connect anew, see `Machine`."""
        lost = self._reached and self._host.target_loss() is not None
        if lost or not self._reached:
            self._host.start_target()
            self._reached = True
        return lost

    def loss(self) -> str | None:
        """Say why the link is gone, see `Machine`."""
        return self._host.target_loss() if self._reached else None

    def leave(self) -> None:
        """Disconnect, see `Machine`."""
        self._host.stop_target()

    @property
    def name(self) -> str:
        """Its name or address, see `Machine`."""
        return self.place.rpartition("@")[2].rpartition(":")[0]

    def way_in(self, command: Sequence[str]) -> tuple[str, ...]:
        """Return how a command is run there, see `Machine`."""
        return self._host.way_in(command)

    def address(self, host: str, port: int) -> Address:
        """Return a port here that leads to one that it can reach, see `Machine`."""
        return self._host.forwarded(host, port)

    def find_program(self, names: Iterable[str]) -> str | None:
        """Find a program, see `Machine`, if need be by what a login shell has on its PATH."""
        found = self._ask(_FIND, *names).strip()
        return found if found.startswith("/") else None

    def run(
        self, argv: Sequence[str], *, whole_environment: bool, on_line: Callable[[str], object] | None
    ) -> tuple[int, str]:
        """Run a program, see `Machine`."""
        done = run_there(self._host, argv if whole_environment else _with_kept(argv), on_line)
        return done.exit_code, done.output + done.errors

    def open_stream(self, argv: Sequence[str], terminal: Terminal | None) -> Stream:
        """Start a program, see `Machine`."""
        return self._host.open_stream(_with_kept(argv), terminal)

    def hold(self, pid: int, name: str) -> Processes:
        """Hold an instance's processes, see `Machine`."""
        return _Processes(self._ask, pid, self._ask(_HOLD, str(pid), name).split())

    def absolute(self, path: str) -> PurePosixPath:
        """Return an absolute path, see `Machine`; a relative one is taken from the home there."""
        return PurePosixPath(self._ask(_ABSOLUTE, path))

    def kind(self, path: PurePosixPath) -> Kind:
        """Say what a path leads to, see `Machine`."""
        match self._ask(_KIND, str(path)):
            case "directory":
                return "directory"
            case "file":
                return "file"
        return ""

    def size(self, path: PurePosixPath) -> int:
        """Return a file's size, see `Machine`."""
        return int(self._ask('stat -c %s -- "$1"', str(path)))

    def read(self, path: PurePosixPath) -> str:
        """Return what a file holds, see `Machine`."""
        return self._ask('cat -- "$1" 2>/dev/null || :', str(path))

    def write(self, path: PurePosixPath, text: str) -> None:
        """Write a file, see `Machine`."""
        self._ask('umask 077; printf %s "$2" >"$1"', str(path), text)

    def names(self, path: PurePosixPath) -> list[str]:
        """Return what is in a directory, see `Machine`."""
        return self._ask('ls -A -- "$1" 2>/dev/null || :', str(path)).split("\n")[:-1]

    def disk_usage(self, path: PurePosixPath) -> int:
        """Return what it takes of the disk, see `Machine`."""
        blocks = self._ask('du -sk -- "$1" 2>/dev/null || :', str(path)).partition("\t")[0]
        return int(blocks or 0) * 1024

    def make_folder(self, path: PurePosixPath) -> None:
        """Make a directory, see `Machine`."""
        self._ask('mkdir -p -- "$1"', str(path))

    def make_passing_folder(self) -> PurePosixPath:
        """Make a temporary directory, see `Machine`."""
        return PurePosixPath(self._ask('mktemp -d "${TMPDIR:-/tmp}/hermes-overlay-XXXXXX"').strip())

    def rename(self, old: PurePosixPath, new: PurePosixPath) -> None:
        """Move a file, see `Machine`."""
        self._ask('mv -f -- "$1" "$2"', str(old), str(new))

    def remove(self, *paths: PurePosixPath) -> None:
        """Remove what is there, see `Machine`."""
        self._ask('chmod -R u+rwX -- "$@" 2>/dev/null; rm -rf -- "$@"', *map(str, paths))

    def _ask(self, script: str, *arguments: str) -> str:
        """Return what shell text prints there.

        Raises:
            TerminalError: It failed, or the machine cannot be reached.
        """
        done = run_there(self._host, ["/bin/sh", "-c", script, "sh", *arguments])
        if done.exit_code != 0:
            why = done.errors.strip() or f"a command ended with exit code {done.exit_code}"
            raise TerminalError(f"backend 'singularity' on {self.place}: {why}")
        return done.output


def _with_kept(argv: Sequence[str]) -> list[str]:
    return ["/bin/sh", "-c", _ONLY_KEPT, "sh", *argv]


class _Processes:
    """The processes of an instance there, see `Processes`, known by when they were started."""

    def __init__(self, ask: Callable[..., str], pid: int, found: Sequence[str]) -> None:
        self._ask = ask
        self._pid = str(pid)
        self._found = list(found)  # when the first one was started, the engine's process, and when that was

    @property
    def running(self) -> bool:
        """Whether the first one is there, see `Processes`."""
        return bool(self._found) and bool(self._ask(_RUNNING, self._pid, self._found[0]))

    @property
    def have_own_network(self) -> bool:
        """Whether they are on another network, see `Processes`."""
        return bool(self._ask(_OWN_NETWORK, self._pid))

    def end(self) -> bool:
        """End them, see `Processes`."""
        return not self._found or bool(self._ask(_END, self._pid, *self._found))

    def release(self) -> None:
        """Let go of them, see `Processes`."""
        self._found = []
