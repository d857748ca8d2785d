"""The boot program: the first code of a script's Python in the target. The process then becomes the script.

Runs on Python 3.8 or later, and imports only modules already loaded by the interpreter and a few in C.

For a Python session, the text of `session_program` follows this one and runs script after script.

On this machine, the interpreter imports this file as `sitecustomize` and then runs the script itself. Elsewhere, the
program and all files of the script are read from standard input. The program forks: the child becomes the script. The
parent is the supervisor: it relays the script's tool calls, adopts orphans, reports the exit code, and ends remaining
processes.

Messages to the caller go over standard error, between the script's own output: byte 30, a marker word, a space, and the
message. Each is a single write of at most 4,096 bytes, which a pipe transfers whole.
"""

# ruff: noqa: PTH102, PTH103, PTH104, PTH108, PTH109, PTH208, SIM105, PLR0915
# pathlib or contextlib would cost milliseconds

from __future__ import annotations

import os
import sys
from _frozen_importlib import module_from_spec
from _frozen_importlib_external import MAGIC_NUMBER, PathFinder, SourceFileLoader  # these are there already

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket
    from collections.abc import Callable
    from types import CodeType, ModuleType, TracebackType

    from code_execution.session_program import ScriptRunner

OLDEST = (3, 8)
BEGIN = "begin"
"""File with the marker word and the mode of a script on this machine."""
SCRIPT, HELD = "script.py", "script"
"""File name of the script, and the name until the boot program has run: a Python that skips this program must not find
the script."""
SECRET_SIZE = 32
"""Bytes of the secret marker word of the supervisor's messages."""
CUT_SHORT = 97
"""Exit code if standard input ends too soon."""
GRACE, KILL_LIMIT = 5.0, 2.0
"""Seconds between TERM and KILL for remaining processes, and the limit for the effect of KILL."""
ATOMIC = 4096
"""Bytes that a pipe transfers whole, even with other writers."""
RECEIVE = 65536
MOST_CONNECTIONS = 64
CONTROL = 0
"""Number of the connection to a session's Python."""
_PR_SET_CHILD_SUBREAPER = 36


# Turning into the script.


class ProjectModuleFinder:
    """An import finder for a project's module with the script's name; the script would shadow the module."""

    def __init__(self, script: str) -> None:
        self.directory, _, file = script.rpartition("/")
        self.name = file.partition(".")[0]

    def find_spec(self, name: str, path: object = None, target: object = None) -> object:
        """Return the module's spec, as import finders do; None leaves the search to other finders."""
        if name != self.name or path is not None:
            return None
        elsewhere = [entry for entry in sys.path if entry != self.directory]
        return PathFinder.find_spec(name, elsewhere)


def set_path(directory: str, mode: str) -> None:
    """Put the session's directory on `sys.path` where `python3 -c` has it, after the script's directory.

    Set here and not by PYTHONPATH, because the interpreter's own imports would search PYTHONPATH too.
    """
    try:
        here = [os.getcwd()]
    except OSError:  # the directory was removed
        here = []
    if mode != "project" or getattr(sys.flags, "safe_path", False):
        here = []
    sys.path_importer_cache.pop(directory, None)  # the directory may have been missing when the interpreter looked
    sys.path[:] = [directory, *here, *(entry for entry in sys.path if entry not in (directory, ""))]


def main_module(script: str) -> ModuleType:
    """Return a new `__main__` module without names of this program."""
    import builtins

    module = sys.modules["__main__"] = type(sys)("__main__")
    names = {"__file__": script, "__builtins__": builtins, "__annotations__": {}, "__cached__": None}
    module.__dict__.update(names, __loader__=SourceFileLoader("__main__", script))
    return module


def replace_stdin_with_null() -> None:
    """Replace standard input with /dev/null, as an ordinary stream."""
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    before = sys.stdin
    if before is None:
        return
    stream = sys.stdin = sys.__stdin__ = open(  # type: ignore[misc]  # noqa: SIM115
        0, encoding=before.encoding, errors=before.errors, newline="\n", closefd=False
    )
    stream.reconfigure(write_through=before.write_through)  # type: ignore[union-attr]
    stream.buffer.raw.name = before.name  # type: ignore[attr-defined]


def become(
    script: str, source: bytes, mode: str, arguments: list[str], ready: Callable[[], object] | None = None
) -> tuple[CodeType, dict[str, object], Callable[[], object]]:
    """Turn this process into the script's; return the code, the globals, and a function to call at an error.

    The caller executes the code, so that only the caller's frame is below the script's. `ready` blocks until the script
    may begin.
    """
    sys.argv[:] = [script, *arguments]
    if hasattr(sys, "orig_argv"):
        sys.orig_argv[:] = [sys.orig_argv[0], "-u", *sys.argv]
    if mode == "strict" and "PWD" in os.environ:
        os.environ["PWD"] = os.getcwd()
    set_path(script.rpartition("/")[0], mode)
    sys.meta_path.insert(0, ProjectModuleFinder(script))  # type: ignore[arg-type]
    names = main_module(script).__dict__
    try:
        code = compile(source, script, "exec", dont_inherit=True)
    except Exception:
        _show_frames(None)
        raise
    finally:
        if ready:
            ready()
    return code, names, hide_own_frame


def hide_own_frame() -> None:
    """Hide the outermost frame of the current error, which ends the interpreter next."""
    trace = sys.exc_info()[2]
    _show_frames(trace and trace.tb_next)


def _show_frames(theirs: TracebackType | None) -> None:
    """Show only these frames with the next error."""
    hook = getattr(sys, "excepthook", None)
    if hook is None:
        return

    def show(kind: type[BaseException], error: BaseException, _: object) -> None:
        sys.excepthook = hook
        sys.last_traceback = theirs
        hook(kind, error.with_traceback(theirs), theirs)

    sys.excepthook = show


def check_version() -> None:
    """Exit if this Python is older than `OLDEST`."""
    if sys.version_info < OLDEST:
        sys.exit("Python {}.{} is too old".format(*sys.version_info))


def report_to_caller(word: str, message: str) -> None:
    """Send a message to the caller."""
    os.write(2, f"\x1e{word} {message}\n".encode())


# Staging, where the script's directory is not on this machine.


def stage(directory: str, files: dict[str, bytes]) -> None:
    """Create the script's directory and its content. A name with a final `/` is a directory, with a final `|` a pipe.

    Raises:
        OSError: A file could not be created.
    """
    try:
        os.mkdir(directory, 0o700)
    except FileNotFoundError:  # a command like `rm -rf /tmp/*` has removed the parent
        os.makedirs(directory.rpartition("/")[0], 0o700)  # the mode applies to the last directory alone
        os.mkdir(directory, 0o700)
    for name, data in files.items():
        path = directory + "/" + name
        if name.endswith("/"):
            os.mkdir(path, 0o700)
        elif name.endswith("|"):
            try:
                os.mkfifo(path[:-1], 0o600)
            except OSError:  # a file system without pipes
                pass
        else:
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                view = memoryview(data)
                while view:
                    view = view[os.write(file, view) :]
            finally:
                os.close(file)


def remove(name: str, place: int | None = None) -> None:
    """Remove a directory tree without following links.

    Raises:
        OSError: An entry cannot be removed.
        RecursionError: The tree is too deep.
    """
    directory = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=place)
    try:
        for entry in os.listdir(directory):
            try:
                os.unlink(entry, dir_fd=directory)
            except (IsADirectoryError, PermissionError):
                remove(entry, directory)
    finally:
        os.close(directory)
    os.rmdir(name, dir_fd=place)


# The supervisor.


def _become_subreaper() -> bool:
    """Become the parent of orphans below this process; False if the system has no such call."""
    try:
        import _ctypes

        function = _ctypes.dlsym(_ctypes.dlopen(None, 0), "prctl")  # type: ignore[arg-type]
        return bool(_ctypes.call_function(function, (_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)) == 0)
    except (ImportError, OSError, AttributeError):
        return False


class RelayConnection:
    """A connection from the script to the relay."""

    def __init__(self, connected: _socket.socket) -> None:
        self.socket = connected
        self.received = bytearray()
        self.outgoing = bytearray()
        self.is_too_large = False

    def line(self, most: int) -> bytes | None:
        """Read available bytes, and return a complete line; b"" if none is complete, None at the end of the connection.

        For a line that is too large, only the newline is returned.
        """
        try:
            data = self.socket.recv(RECEIVE)
        except BlockingIOError:
            return b""
        except OSError:
            return None
        if not data:
            return None
        self.received += data
        if len(self.received) > most:
            self.received.clear()
            self.is_too_large = True
        if not data.endswith(b"\n"):  # a script sends a line, and waits for the answer
            return b""
        line = bytes(self.received)
        self.received.clear()
        return line or b"\n"

    def send(self) -> bool:
        """Send as much as possible without blocking; False if the connection is broken."""
        try:
            while self.outgoing:
                del self.outgoing[: self.socket.send(self.outgoing)]
        except BlockingIOError:
            pass
        except OSError:  # the script died, so no answer is needed
            return False
        return True


class Supervisor:
    """The parent of the script: relays tool calls and reports the script's end.

    Args:
        script: Process id of the script.
        word: Secret marker of the messages, unknown to the script.
        directory: Directory of the script.
        config: Input of the boot program; see `main`.
        adopts: True if orphans of the script become children of this process.
        control: Connection to a session's Python, for its requests.
    """

    def __init__(
        self, script: int, word: bytes, config: dict[str, object], adopts: bool, control: _socket.socket | None
    ) -> None:
        import select

        self.script, self.word, self.adopts = script, word, adopts
        self.directory = str(config["directory"])
        self.poll = select.poll()
        self.POLLIN, self.POLLOUT = select.POLLIN, select.POLLOUT
        self.config = config
        self.ended: int | None = None
        self.incoming = b""
        self.unsent: list[bytes] = []
        self.unanswered = 0
        self.is_end_requested = self.is_lost = False
        self.listener: _socket.socket | None = None
        self.connections: dict[int, tuple[int, RelayConnection]] = {}
        self.numbers: dict[int, RelayConnection] = {}
        self.number = 0
        if control:
            control.setblocking(False)
            self.numbers[CONTROL] = RelayConnection(control)
            self.connections[control.fileno()] = CONTROL, self.numbers[CONTROL]
            self.poll.register(control.fileno(), self.POLLIN)
        self.out, self.out_blocks = self._opened_output()
        self.wake_read, self.wake_write = os.pipe()

    def _opened_output(self) -> tuple[int, bool]:
        """Return a descriptor of standard error and whether writes may block; the script's own may block."""
        try:
            return os.open("/proc/self/fd/2", os.O_WRONLY | os.O_NONBLOCK), False
        except OSError:  # a socket, or a file of another user
            return os.dup(2), True

    def listen(self) -> None:
        """Listen for connections."""
        import _socket

        self.listener = listener = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        os.chdir(self.directory)  # a socket address has to be short
        listener.bind("socket")
        os.chdir("/")
        listener.listen(MOST_CONNECTIONS)
        listener.setblocking(False)
        self.poll.register(listener.fileno(), self.POLLIN)

    def watch_children(self) -> None:
        """Wake up at a child's end, and ignore signals to the script's process group."""
        import _signal  # type: ignore[import-not-found]

        os.set_blocking(self.wake_write, False)
        _signal.set_wakeup_fd(self.wake_write)
        _signal.signal(_signal.SIGCHLD, lambda *_: None)
        for number in (_signal.SIGTERM, _signal.SIGINT, _signal.SIGHUP, _signal.SIGQUIT):
            _signal.signal(number, _signal.SIG_IGN)
        for number in (_signal.SIGUSR1, _signal.SIGUSR2):
            _signal.signal(number, _signal.SIG_IGN)
        self.poll.register(self.wake_read, self.POLLIN)

    def serve(self) -> None:
        """Serve the script until it has ended and all messages are sent."""
        if self.config["duplex"]:
            self.poll.register(0, self.POLLIN)
        while True:
            self._reap()
            if self.ended is not None and not self.unsent and (not self.unanswered or self.is_end_requested):
                return
            if self.is_lost:
                return
            for descriptor, _ in self.poll.poll():
                if descriptor == self.wake_read:
                    os.read(self.wake_read, RECEIVE)
                elif descriptor == 0:
                    self._read_input()
                elif descriptor == self.out:
                    self._flush()
                elif self.listener and descriptor == self.listener.fileno():
                    self._accept(self.listener)
                elif descriptor in self.connections:
                    self._serve(descriptor)

    def _reap(self) -> None:
        """Reap children, and report the script's exit code."""
        while self.ended is None:
            try:
                process, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not process:
                return
            if process == self.script:
                self.ended = 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
                left = "none" if self.adopts and is_childless() else "some" if self.adopts else "unknown"
                self.report(b"e %d %s\n" % (self.ended, left.encode()))

    # Messages to the caller.

    def report(self, message: bytes) -> None:
        """Queue a message, and send as much as possible without blocking."""
        self.unsent.append(b"\x1e" + self.word + b" " + message)
        if len(self.unsent) == 1:
            self._flush()

    def _flush(self) -> None:
        if self.out_blocks:
            import select

            room = select.poll()
            room.register(self.out, self.POLLOUT)
        sent = 0
        try:
            for message in self.unsent:
                if self.out_blocks and not room.poll(0):
                    break
                os.write(self.out, message)
                sent += 1
        except BlockingIOError:
            pass
        except OSError:
            self.is_lost = True
        del self.unsent[:sent]
        if self.unsent:
            self.poll.register(self.out, self.POLLOUT)
        else:
            try:
                self.poll.unregister(self.out)
            except KeyError:
                pass

    # Messages from the caller.

    def _read_input(self) -> None:
        data = os.read(0, RECEIVE)
        if not data:
            self.is_lost = True
        self.incoming += data
        while True:
            head, end, rest = self.incoming.partition(b"\n")
            if not end:
                return
            if not head:
                self.is_end_requested = True
                self.incoming = rest
                if CONTROL in self.numbers:
                    self._close(self.numbers[CONTROL].socket.fileno())
                continue
            kind, number, size = head.split(b" ")
            length = int(size)
            if len(rest) < length:
                if length > RECEIVE:  # in one go, because each piece would copy the buffer again
                    self.incoming = head + end + rest + read_exactly(length - len(rest))
                    continue
                return
            self.incoming = rest[length:]
            self.handle(kind, int(number), rest[:length])

    def handle(self, kind: bytes, number: int, data: bytes) -> None:
        """Handle a message: an interrupt, or bytes for a connection (an answer, or a request to a session's Python)."""
        if kind == b"i":
            if self.ended is None:
                os.kill(self.script, 2)
            return
        self.unanswered -= number != CONTROL
        connection = self.numbers.get(number)
        if connection:
            connection.outgoing += data
            self._send(connection)

    # Connections of the script.

    def _accept(self, listener: _socket.socket) -> None:
        import _socket

        try:
            descriptor, _ = listener._accept()  # type: ignore[attr-defined]
        except OSError:
            return
        connected = _socket.socket(fileno=descriptor)
        connected.setblocking(False)
        self.number += 1
        connection = RelayConnection(connected)
        self.connections[descriptor] = (self.number, connection)
        self.numbers[self.number] = connection
        self.poll.register(descriptor, self.POLLIN)
        if len(self.connections) >= MOST_CONNECTIONS:
            self.poll.unregister(listener.fileno())

    def _serve(self, descriptor: int) -> None:
        number, connection = self.connections[descriptor]
        if connection.outgoing:
            self._send(connection)
        line = connection.line(int(str(self.config["most"])))
        if line is None:
            self._close(descriptor)
        elif line and connection.is_too_large:
            connection.is_too_large = False
            connection.outgoing += str(self.config["too_large"]).encode() + b"\n"
            self._send(connection)
        elif line:
            self._relay(number, line)

    def _relay(self, number: int, line: bytes) -> None:
        self.unanswered += 1
        room = ATOMIC - len(self.word) - 40
        for start in range(0, len(line), room):
            part = line[start : start + room]
            is_last = start + room >= len(line)
            self.report(b"r %d %d %d\n" % (number, len(part), is_last) + part)

    def _send(self, connection: RelayConnection) -> None:
        descriptor = connection.socket.fileno()
        if not connection.send():
            self._close(descriptor)
        elif connection.outgoing:
            self.poll.register(descriptor, self.POLLIN | self.POLLOUT)
        else:
            self.poll.register(descriptor, self.POLLIN)

    def _close(self, descriptor: int) -> None:
        number, connection = self.connections.pop(descriptor)
        del self.numbers[number]
        self.poll.unregister(descriptor)
        connection.socket.close()
        if self.listener and len(self.connections) == MOST_CONNECTIONS - 1:
            self.poll.register(self.listener.fileno(), self.POLLIN)

    # Ending the script.

    def end_leftovers(self) -> None:
        """End remaining children, including processes without a marker: TERM, a grace, KILL."""
        import time

        grace = time.monotonic() + (0 if self.is_lost else GRACE)
        terminated: set[int] = set()
        while not is_childless() and time.monotonic() < grace + KILL_LIMIT:
            is_over = time.monotonic() > grace
            for child in children():
                if is_over or child not in terminated:
                    terminated.add(child)
                    try:
                        os.kill(child, 9 if is_over else 15)
                    except OSError:
                        pass
            time.sleep(0.02)

    def remove_directory(self) -> None:
        """Remove the directory, and report the removal."""
        try:  # the file queue's collector has to notice the removal
            wake = os.open(self.directory + "/rpc/wake", os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW)
        except OSError:  # another transport is used
            wake = os.open(os.devnull, os.O_WRONLY)
        try:
            remove(self.directory)
        except (OSError, RecursionError):  # the caller removes the directory then
            return
        os.write(2, b"\x1e" + self.word + b" z\n")
        try:
            os.write(wake, b"\n")
        except OSError:  # the script replaced the pipe
            pass


def children() -> list[int]:
    """Return this process's children. Children of an ended child appear at the next call."""
    with open(f"/proc/self/task/{os.getpid()}/children", "rb") as file:
        return [int(child) for child in file.read().split()]


def is_childless() -> bool:
    """Return True if no child is left."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return True
    return False


def _socket_pair() -> tuple[_socket.socket, _socket.socket]:
    import _socket

    return _socket.socketpair()


def ignore_signal(*_: object) -> None:
    """Ignore a signal."""


def read_exactly(size: int) -> bytes:
    """Read exactly `size` bytes of standard input."""
    data = b""
    while len(data) < size:
        piece = os.read(0, size - len(data))
        if not piece:
            os._exit(CUT_SHORT)
        data += piece
    return data


def main(
    config: dict[str, object], session: type[ScriptRunner] | None = None
) -> tuple[CodeType, dict[str, object], Callable[[], object]]:
    """Stage the script and fork. The parent supervises; the child becomes the script, see `become`.

    Args:
        config: `word`, `directory`, `files`, `mode`, `arguments`; `duplex`, True if standard input goes on after this;
            `relays`, True if tool calls are relayed; `session`, the marker word of a session; `most` and `too_large`,
            the largest request and the answer to a larger request.
        session: Class that runs scripts in the child, for a Python session.
    """
    check_version()
    word, directory = str(config["word"]), str(config["directory"])
    files: dict[str, bytes] = config["files"]  # type: ignore[assignment]
    try:
        stage(directory, files)
    except OSError as error:
        report_to_caller(word, f"failed {error}")
        os._exit(1)
    report_to_caller(word, "+" + MAGIC_NUMBER.hex())
    ready, readying = os.pipe()
    control, scripts = _socket_pair() if session else (None, None)
    if scripts:
        import _signal

        _signal.signal(2, ignore_signal)
    script = os.fork()
    if not script:
        os.close(readying)
        if control:
            control.close()
        replace_stdin_with_null()
        source, mode, arguments = files[SCRIPT], str(config["mode"]), config["arguments"]
        path = directory + "/" + SCRIPT
        session_word = str(config["session"])
        if mode == "strict":
            os.chdir(directory)
        config.clear()

        def wait() -> None:
            if not os.read(ready, 1):
                os._exit(1)
            os.close(ready)

        if session and scripts:
            set_path(directory, mode)
            wait()
            session(scripts, directory, session_word).serve()
            return compile("", path, "exec"), {}, hide_own_frame
        return become(path, source, mode, arguments, wait)  # type: ignore[arg-type]
    os.close(ready)
    if scripts:
        scripts.close()
    secret = read_exactly(SECRET_SIZE)  # after the fork, so that the script's process never has the secret
    adopts = _become_subreaper()
    os.write(readying, b"r")
    os.close(readying)
    supervisor = Supervisor(script, secret, config, adopts, control)
    supervisor.watch_children()
    if config["relays"]:
        supervisor.listen()
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)  # so that the script alone holds its output open
    supervisor.serve()
    if adopts:
        supervisor.end_leftovers()
    supervisor.remove_directory()
    # After exit code 0 the shell would read on, and could run a script meant for a session that has ended.
    os._exit(CUT_SHORT if control and not (supervisor.is_end_requested or supervisor.is_lost) else 0)


def begin_as_sitecustomize() -> None:
    """Report that the Python works which is about to run the script, and set `sys.path` at the end of its start.

    Raises:
        ImportError: There is no other `sitecustomize`.
    """
    directory = __file__.rpartition("/")[0]
    os.unlink(__file__)  # Pythons started by the script must not import this file
    with open(directory + "/" + BEGIN, encoding="utf-8") as file:
        word, mode = file.read().split()
    check_version()
    os.rename(directory + "/" + HELD, directory + "/" + SCRIPT)
    report_to_caller(word, "+" + MAGIC_NUMBER.hex())
    try:
        found = PathFinder.find_spec("sitecustomize", [entry for entry in sys.path if entry != directory])
        if found is None or found.loader is None:
            raise ImportError(name="sitecustomize")  # ignored by the interpreter
        module = sys.modules["sitecustomize"] = module_from_spec(found)
        found.loader.exec_module(module)
    finally:
        set_path_when_up(directory, mode)


def set_path_when_up(directory: str, mode: str) -> None:
    """Set the script's `sys.path` after the interpreter has imported `usercustomize`, the next step of its start."""
    import site

    if not site.ENABLE_USER_SITE:
        set_path_here(directory, mode)
        return
    user_module = site.execusercustomize

    def then_set_path() -> None:
        site.execusercustomize = user_module
        user_module()
        set_path_here(directory, mode)

    site.execusercustomize = then_set_path


def set_path_here(directory: str, mode: str) -> None:
    """Set `sys.path` for a script run by the interpreter itself."""
    set_path(directory, mode)
    if not getattr(sys.flags, "safe_path", False):
        sys.path.remove(directory)  # added by the interpreter itself
    sys.meta_path.insert(0, ProjectModuleFinder(directory + "/" + SCRIPT))  # type: ignore[arg-type]


if __name__ == "sitecustomize":
    begin_as_sitecustomize()
