"""The process that a script is forked from, and that is all of this for it alone: it tells how the script ended.

What the script leaves behind becomes its child, whatever that has done to get away, so that it knows whether there is
anything. Until the script's shell has said `go`, nothing of the script has run, and nothing has to be undone.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time

from code_execution.script_start import ProjectsOwn, set_path
from code_execution.warm.choosing import chosen
from code_execution.warm.compiled_tools import CompiledTools
from code_execution.warm.fingerprint import Fingerprint, library, shaping
from code_execution.warm.own_memory import OwnMemory
from code_execution.warm.ready_modules import Ready, forget_directories
from code_execution.warm.taking_over import (
    UnlikeError,
    have_files,
    have_place_of,
    have_variables,
    opened_files,
    out_of_the_way,
)

TYPE_CHECKING = False  # importing typing would cost a server milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable

_PR_SET_CHILD_SUBREAPER = 36
_SURVIVED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
"""Signals to the script's group, or to all processes that may be signalled."""
_MARKER = b"HERMES_COMMAND="
GRACE, KILL_LIMIT = 5.0, 2.0
"""Seconds between TERM and KILL for what a script has left, and those in which KILL must have ended it."""
START = "start-script"
"""What is shown of a script's start, as of one without us."""


class Known:
    """What a server knows when it begins.

    Args:
        directory: Its own.
        python: The path that it was started by.
    """

    def __init__(self, directory: str, python: str) -> None:
        self._prctl = _prctl()
        self.directory = directory
        self.python = python
        self.ready = Ready(library())
        self.tools = CompiledTools()
        self.path = [entry for entry in sys.path if entry != directory]
        given = self._given()
        self.shaping = shaping(given, os.fsencode(directory))
        self.added = [b"%s=%s" % entry for entry in os.environb.items() if entry[0] not in given]
        """What a Python adds to its variables as it starts: in a plain locale, one that has UTF-8."""
        self.fingerprint = Fingerprint(self.path)
        self.memory = OwnMemory()
        self._show_alone()

    @staticmethod
    def _given() -> dict[bytes, bytes]:
        with open("/proc/self/environ", "rb") as file:
            return dict(entry.split(b"=", 1) for entry in file.read().split(b"\0")[:-1])

    def _show_alone(self) -> None:
        """Show nothing of the room that there is for what is shown of scripts."""
        variables = [name + b"=" + value for name, value in os.environb.items() if name != b"HERMES_ROOM"]
        self.memory.show([os.fsencode(each) for each in (self.python, "-u", f"{self.directory}/serve")], variables)

    def adopt_orphans(self) -> bool:
        """Become the parent of what our children leave, and return whether that can be had."""
        return self._prctl is not None and self._prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0


def _prctl() -> Callable[..., int] | None:
    try:
        import ctypes

        prctl: Callable[..., int] = ctypes.CDLL(None).prctl
    except (ImportError, OSError, AttributeError):
        return None
    return prctl


class Job:
    """A script that is asked for.

    Args:
        pid: The process that asks.
        directory: Where it has put what it asks.
    """

    def __init__(self, pid: int, directory: str) -> None:
        self.pid = pid
        self.directory = directory
        with open(directory + "/job", "rb") as file:
            first, *variables = file.read().split(b"\0")[:-1]
        os.unlink(file.name)  # noqa: PTH108  # values that were allowed by name are in it
        self.variables = variables
        given = json.loads(first)
        self.mode: str = given["mode"]
        self.word: str = given["word"]
        self.arguments: list[str] = given["arguments"]
        self.candidates: list[str] = given["candidates"]
        self.search: str = given["search"]

    def check(self, known: Known) -> None:
        """Check that the server's Python is the one that is wanted, and as a new one would be.

        Raises:
            UnlikeError: It is not.
        """
        given = dict(entry.split(b"=", 1) for entry in self.variables)
        paths = [os.fsdecode(entry[5:]) for entry in self.variables if entry.startswith(b"PATH=")]
        if chosen(self.candidates, [self.search, paths[0] if paths else ""]) != known.python:
            raise UnlikeError  # another Python is meant
        if known.shaping is None or shaping(given, os.fsencode(self.directory)) != known.shaping:
            raise UnlikeError  # its variables make another Python
        if not known.fingerprint.holds():
            raise UnlikeError  # what Python reads on its way up has changed


class Script:
    """What the fork that becomes the script goes on with.

    Args:
        job: What was asked for.
        go: Where it is told to begin.
    """

    def __init__(self, job: Job, go: int) -> None:
        self._go = go
        self.path = job.directory + "/script.py"
        self.mode = job.mode
        self.arguments = job.arguments

    def await_go(self) -> None:
        """Wait until the script may run. It never does if whoever asked is gone."""
        if os.read(self._go, 1) != b"g":
            os._exit(0)
        os.close(self._go)


def nursed(request: bytes, known: Known) -> Script | None:
    """Do what is asked for, in a process of its own.

    Args:
        request: What was asked: the process that does, and the directory.
        known: The server.

    Returns:
        What to go on with, in the fork that becomes the script. The process itself does not return.
    """
    pid, _, place = request.partition(b" ")
    directory = os.fsdecode(place)
    status = -1
    try:
        status = os.open(directory + "/in", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        os.setsid()
        adopts = known.adopt_orphans()
        script = _forked(int(pid), directory, known, status)
        if script:
            return script
        _see_to_its_end(directory, status, adopts)
    except BaseException:  # and be it that there is no memory: whoever asked goes another way
        with contextlib.suppress(OSError):
            os.write(status, b"cold\n")
    os._exit(0)


_script = 0


def _forked(pid: int, directory: str, known: Known, status: int) -> Script | None:
    """Fork what becomes the script, and wait until it is ready to. Return it in that process."""
    global _script  # noqa: PLW0603
    go = out_of_the_way(os.open(directory + "/go", os.O_RDONLY | os.O_NONBLOCK))
    os.set_blocking(go, True)
    ready, told = map(out_of_the_way, os.pipe())
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _script = os.fork()
    if not _script:
        with contextlib.suppress(BaseException):
            job = Job(pid, directory)
            _become(job, known, (go, told))
            script = Script(job, go)
            os.write(told, b"r")
            os.close(told)
            return script
        os._exit(0)
    os.close(told)
    os.close(go)
    for survived in _SURVIVED:
        signal.signal(survived, signal.SIG_IGN)
    if os.read(ready, 1) != b"r":
        raise UnlikeError  # it could not be made like the one that asks
    os.close(ready)
    return None


def _become(job: Job, known: Known, kept: tuple[int, ...]) -> None:
    """Be what a new Python would be that was about to run the script."""
    job.check(known)
    have_place_of(job.pid)
    have_files(opened_files(job.pid, (job.directory + "/", known.directory + "/")), kept)
    have_variables(dict(entry.split(b"=", 1) for entry in (*job.variables, *known.added)))
    script = job.directory + "/script.py"
    shown = [f"{job.directory}/{START}", script, job.word, job.mode, *job.arguments]
    if hasattr(sys, "orig_argv"):
        sys.orig_argv[:] = [known.python, "-u", *shown]
    sys.argv[:] = [script, *job.arguments]
    sys.path[:] = known.path
    set_path(job.directory, job.mode)
    forget_directories(library())
    known.ready.hide(known.tools)
    sys.meta_path.insert(0, ProjectsOwn(script))  # type: ignore[arg-type]
    marked = sorted(dict.fromkeys(job.variables), key=lambda entry: not entry.startswith(_MARKER))
    known.memory.show([os.fsencode(each) for each in (known.python, "-u", *shown)], marked)


def _see_to_its_end(directory: str, status: int, adopts: bool) -> None:
    """Let the script run, and say how it ended, and whether anything is left of it."""
    # Read only now that the script's process is there, which so never has it.
    with open(directory + "/secret", "rb") as file:
        secret = file.read()
    os.unlink(directory + "/secret")  # noqa: PTH108
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208
        if int(name) > 2 and int(name) != status:
            with contextlib.suppress(OSError):
                os.close(int(name))
    os.set_blocking(status, True)
    os.write(status, b"taken\n")
    _, ended = os.waitpid(_script, 0)
    code = 128 + os.WTERMSIG(ended) if os.WIFSIGNALED(ended) else os.WEXITSTATUS(ended)
    left = b"processes"
    if adopts and _is_childless():
        left = b"" if _removes(directory) else b"files"
    os.write(status, b"%d %s%s\n" % (code, secret, left))
    if left == b"processes" and adopts:
        _end_what_is_left()


def _end_what_is_left() -> None:
    """End also what nobody else finds, as it has shed all signs of ours."""
    grace = time.monotonic() + GRACE
    told: set[int] = set()
    while not _is_childless() and time.monotonic() < grace + KILL_LIMIT:
        is_over = time.monotonic() > grace
        for child in _children():
            if is_over or child not in told:
                told.add(child)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL if is_over else signal.SIGTERM)
        time.sleep(0.02)


def _children() -> list[int]:
    """Return those of this process: what one that is ended leaves is among them at the next look."""
    with open(f"/proc/self/task/{os.getpid()}/children", "rb") as file:
        return [int(child) for child in file.read().split()]


def _is_childless() -> bool:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return True
    return False


def _removes(directory: str) -> bool:
    """Remove the script's directory, if it holds nothing but files, and nobody else uses it, and return whether."""
    try:
        # The script may have put a link in its place, and what that leads to stays as it is.
        place = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            names = os.listdir(place)  # noqa: PTH208
            if "keep" in names:
                return False
            for name in names:
                os.unlink(name, dir_fd=place)
        finally:
            os.close(place)
        os.rmdir(directory)  # noqa: PTH106
    except OSError:
        return False
    return True
