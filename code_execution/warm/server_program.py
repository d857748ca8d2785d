"""The server: a Python that is ready, waits, and forks for each script. It never runs anybody's code itself.

A program of its own, started as `python -u serve DIRECTORY WORD PYTHON PADDING`. Then there is a FIFO `ask` in that.
Each line in it asks for a script: a process id, and a directory with what is to run. It says on its standard output
that it is ready, and goes on in the background until nobody has asked for a while.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
import sys

from code_execution.script_start import run
from code_execution.warm.fingerprint import is_customized
from code_execution.warm.nurse import Known, Script, nursed
from code_execution.warm.ready_modules import WANTED

IDLE_SECONDS = 300.0
"""How long it waits for the next script. A model may take minutes for its next step."""
_LONGEST = 4096
CHANGED = 75
"""Exit code when what a Python reads on its way up was changed meanwhile: another server may be tried."""


def _leave(directory: str) -> None:
    for name in ("ask", "serve"):
        with contextlib.suppress(OSError):
            os.unlink(f"{directory}/{name}")  # noqa: PTH108
    with contextlib.suppress(OSError):
        os.rmdir(directory)  # noqa: PTH106
    os._exit(0)


def _in_background(directory: str, word: str) -> int:
    """Go on in a process of our own session, that has nothing open but the FIFO, and return that."""
    os.mkfifo(directory + "/ask", 0o600)
    ask = os.open(directory + "/ask", os.O_RDWR | os.O_CLOEXEC)
    waiting, held = os.pipe()
    child = os.fork()
    if child:
        os.close(held)
        os.read(waiting, 1)  # until the child holds nothing more of what we were started with
        os.write(1, f"{word} {child}\n".encode())
        os._exit(0)
    os.setsid()
    os.chdir("/")
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208
        if int(name) > 2 and int(name) != ask:
            with contextlib.suppress(OSError):
                os.close(int(name))
    return ask


def _requests(ask: int, directory: str) -> list[bytes]:
    """Wait for requests, and return them. What is none is dropped, as anybody who may write to the FIFO does so."""
    data = b""
    while not data.endswith(b"\n"):
        if not select.select([ask], [], [], IDLE_SECONDS)[0]:
            _leave(directory)
        data = (data + os.read(ask, _LONGEST))[-_LONGEST:]
    place = os.fsencode(os.path.dirname(directory)) + b"/script-"  # noqa: PTH120
    parts = [(line, line.partition(b" ")) for line in data.splitlines()]
    return [line for line, (pid, _, path) in parts if pid.isdigit() and path.startswith(place) and b"/.." not in path]


def _refuse(request: bytes) -> None:
    """Say to whoever asked that it has to go another way: there is no process left, or no memory."""
    with contextlib.suppress(OSError):
        status = os.open(request.partition(b" ")[2] + b"/in", os.O_WRONLY | os.O_NONBLOCK)
        os.write(status, b"cold\n")
        os.close(status)


def _next_script(ask: int, known: Known) -> Script:
    """Return, in a process of its own, what was asked for."""
    while True:
        for request in _requests(ask, known.directory):
            try:
                forked = os.fork() == 0
            except OSError:
                _refuse(request)
                continue
            script = nursed(request, known) if forked else None
            if script:
                return script
            if known.tools.learn(os.fsdecode(request.partition(b" ")[2])):
                gc.freeze()


def _ready() -> Script:
    """Get ready, and return in each fork what that has to run."""
    directory, word, python = sys.argv[1:4]
    if is_customized() or len(os.listdir("/proc/self/task")) != 1:  # noqa: PTH208
        sys.exit("this Python runs something of its own as it starts")
    if not os.path.samefile(python, "/proc/self/exe"):  # noqa: PTH121
        sys.exit("what starts this Python may set variables, and choose another elsewhere")
    for name in WANTED:
        __import__(name)
    known = Known(directory, python)
    if not known.fingerprint.is_what_was_read():
        sys.exit(CHANGED)
    ask = _in_background(directory, word)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    gc.collect()
    gc.freeze()
    return _next_script(ask, known)


def become() -> None:
    """Be a server, and in each fork of it the script."""
    script = _ready()
    script.await_go()
    run(script.path)
