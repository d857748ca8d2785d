"""Calls on the loop thread: their work, leaving callers, and programs with calls."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from environments import loop
from environments.loop import Call, LoopThread
from environments.output import Channel
from targets.pause_log import PauseLog

LONG = 60.0
"""Time-out of a wait in seconds, for a loaded machine."""
NEVER = 100_000.0
"""Seconds of a wait that never ends by itself."""
OUT, ERR = Channel.STDOUT, Channel.STDERR

Work = Callable[[Call[Any]], Awaitable[Any]]
WHO: ContextVar[str] = ContextVar("WHO", default="nobody")


def end(thread: LoopThread) -> None:
    """Stop a loop thread and its idle workers."""
    thread.stop()
    assert thread.has_ended
    for worker in thread._workers._idle:
        worker.wake.release()
    thread.loop.close()


async def unfinished_tasks() -> list[asyncio.Task[Any]]:
    """Return the loop's other unfinished tasks."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    return list((await asyncio.wait(others, timeout=LONG))[1]) if others else []


async def right(_: Call[str]) -> str:
    return "right"


async def wait_for_ever() -> None:
    await asyncio.get_running_loop().create_future()


def callerless_call(work: Work) -> Call[Any]:
    """Return a call without a caller."""
    return Call(work, None, lambda: None, wants_pieces=False)


async def begin_call(work: Work) -> Call[Any]:
    """Begin a call without a caller, up to its first wait or its end. Runs on the loop."""
    call = callerless_call(work)
    loop.current().begin(call)
    await asyncio.sleep(0)
    return call


def in_threads(*functions: Callable[[], object]) -> None:
    """Call functions in parallel threads, and wait for all of them."""
    threads = [threading.Thread(target=function) for function in functions]
    for each in threads:
        each.start()
    for each in threads:
        each.join(LONG)


def offer(call: Call[Any], channel: Channel, data: bytes, stream: PauseLog | None = None) -> None:
    """Offer a piece of output to the callback of a call, as work does."""
    assert call.pieces is not None
    call.pieces.offer(channel, data, stream or PauseLog())


class CallerLeft(Exception):
    """The exception in the thread of a leaving caller."""


def leaving(after: threading.Event) -> Callable[..., None]:
    """Return a callback for output that raises `CallerLeft` once an event is set."""

    def leave(channel: Channel, data: bytes) -> None:
        assert after.wait(LONG)
        raise CallerLeft

    return leave


def output_of(*parts: str, may_complain: bool = False) -> str:
    """Run a script in a new Python, and return its output. It has to exit with 0 and an empty stderr."""
    tests = Path(__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", "".join(map(textwrap.dedent, parts))],
        env={**os.environ, "PYTHONPATH": f"{tests}{os.pathsep}{tests.parent}"},
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
    )
    assert done.returncode == 0, done
    assert not done.stderr or may_complain, done
    return done.stdout


class Abandoned:
    """Work that waits for ever, cleans up in several awaits, and records its steps."""

    def __init__(self, wait: Callable[[], Awaitable[None]]) -> None:
        self._wait = wait
        self.waits, self.ended = threading.Event(), threading.Event()
        self.steps: list[str] = []

    async def __call__(self, call: Call[None]) -> None:
        # Runs in the loop's next iteration, when the task waits.
        asyncio.get_running_loop().call_soon(self.waits.set)
        try:
            await self._wait()
        except asyncio.CancelledError:
            self.steps.append("cancelled")
            raise
        finally:
            try:
                await asyncio.sleep(0)
                self.steps.append("slept")
            finally:
                self.steps.append(await loop.in_worker(str, "worked"))
                async with asyncio.timeout(NEVER):
                    await loop.done_within(loop.spawn(asyncio.sleep(0)), NEVER)
                self.steps.append("ended")
                self.ended.set()

    def all_steps(self) -> list[str]:
        """Wait for the end of the work, and return its steps."""
        assert self.ended.wait(LONG)
        return self.steps


WHOLE = ["cancelled", "slept", "worked", "ended"]
"""All steps of cancelled work."""


class Resources:
    """Resources made by calls. In the end each has one owner or is undone."""

    def __init__(self) -> None:
        self.made: list[int] = []
        self.got: list[int] = []
        self.undone: list[int] = []

    async def undo(self, thing: int) -> None:
        await asyncio.sleep(0)
        self.undone.append(thing)

    async def make(self, call: Call[int]) -> int:
        """Make a resource, as the last step of a call."""
        call.undo = self.undo
        self.made.append(len(self.made))
        return self.made[-1]

    def lost(self) -> str:
        """Return the state if a resource was lost or has two owners; else an empty text."""
        return "" if sorted(self.got + self.undone) == self.made else f"{vars(self)}"


BEGINNING = """
import asyncio, atexit, os, signal, sys, threading

async def right(call):
    return "right"

def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())

def try_a_call(name):
    from environments import TerminalError, loop
    try:
        say(name, loop.run(right))
    except TerminalError as error:
        say(name, error)
"""


def output_lines(*parts: str) -> list[str]:
    """Run a script after `BEGINNING`, and return its output's lines."""
    return output_of(BEGINNING, *parts).splitlines()
