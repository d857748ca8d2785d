"""An exception in the caller's thread at each moment of one operation: contract line 8, as a program.

At a moment, CPython may run a signal handler that raises: the start of a Python function, or the return of a C call.
`sys.setprofile` reports both, in the frames of this package and of the libraries below. An operation is called for
each moment, or for a sample of the places in the code, and the exception is raised there. Afterwards the next call
has to be right, in the same thread and in another. At the end no process, thread, file descriptor or target is left.

Each operation is tried in a new process, as a failure leaves held locks, hanging threads and children:

    python -m targets.trial '{"backend": "local"}' execute 40
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import queue
import secrets
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import TypeVar

import psutil

from environments import BaseEnvironment, TerminalError, create_environment
from environments.conformance.check import running, wait_until
from targets.operations import OPERATIONS, Context, Operation
from targets.threads import running_threads

T = TypeVar("T")
HUNG = 10.0
"""Seconds after which a call counts as hanging; on an idle machine calls take milliseconds."""


class Raised(BaseException):
    """The injected exception, in place of an alarm handler's or a KeyboardInterrupt."""


LOOKS = 10
"""Attempts to find no leftover. Each reads all processes."""

Place = str
"""The place of a moment: the calling function, and the called or returned one."""


def raise_at(place: Place | int | None, call: Callable[[], object]) -> list[Place]:
    """Call a function, and raise `Raised` at a moment of it.

    Args:
        place: The place, for its first moment; or the number of the moment, from 0; None to raise nowhere.
        call: The function.

    Returns:
        The places of the passed moments, in order.
    """
    passed: list[Place] = []

    def profile(frame: FrameType, event: str, argument: object) -> None:
        if event not in ("call", "c_return"):
            return
        code, back = frame.f_code, frame.f_back
        function = f" {getattr(argument, '__qualname__', '')} returned" if event == "c_return" else ""
        caller = f"{back.f_code.co_qualname} > " if back else ""
        here = f"{Path(code.co_filename).name}: {caller}{code.co_qualname}{function}"
        passed.append(here)
        if place in (here, len(passed) - 1):
            sys.setprofile(None)
            raise Raised

    with contextlib.suppress(Raised):
        sys.setprofile(profile)
        try:
            call()
        finally:
            sys.setprofile(None)
    return passed


class Hung(Exception):
    """A call did not return."""


class CallerThread:
    """A thread that calls functions, so that a hanging call costs a test at most `HUNG` seconds."""

    def __init__(self) -> None:
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="caller of a test", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while work := self._work.get():
            work()

    def call(self, function: Callable[[], T]) -> T:
        """Call a function in the thread, and pass its result or exception on.

        Raises:
            Hung: This call or an earlier one did not return within `HUNG` seconds.
        """
        outcome: queue.SimpleQueue[tuple[T | None, BaseException | None]] = queue.SimpleQueue()

        def work() -> None:
            try:
                outcome.put((function(), None))
            except BaseException as error:
                outcome.put((None, error))

        self._work.put(work)
        try:
            value, error = outcome.get(timeout=HUNG)
        except queue.Empty:
            raise Hung from None
        if error:
            raise error
        return value  # type: ignore[return-value]

    def end(self) -> None:
        """End the thread. A hanging thread ends with the program."""
        self._work.put(None)
        self._thread.join(1)


class Trial:
    """An operation on environments of one kind.

    Args:
        settings: Arguments of `create_environment`.
        operation: The operation.
        most: Maximum of tried places in the code, the same in each run; None tries every moment.
    """

    def __init__(self, settings: Mapping[str, object], operation: Operation, most: int | None) -> None:
        self._word = f"moments{secrets.token_hex(6)}"
        """A marker in the arguments of the operation's long processes, and the environments' task."""
        self._settings = {**settings, "task_id": self._word}
        self._operation = operation
        self._most = most and min(most, operation.most or most)
        self._here, self._there = CallerThread(), CallerThread()
        self.tried = 0
        """Moments tried so far."""
        self._last: Place | int = ""

    def problem(self) -> str | None:
        """Try the moments.

        Returns:
            The first bad moment with its effect on the next call, or the leftovers at the end; None if all is right.
        """
        try:
            passed = self._warm()
            before = _held()
            return self._tried(self._chosen(passed)) or self._left(before)
        except Hung:
            return f"a call hangs after {self.tried} moments, the last {self._last}"

    def _warm(self) -> list[Place]:
        """Call the operation undisturbed, and return its moments. Imports and first openings are done by then."""
        passed: list[Place] = []
        for _ in range(2):
            with self._environment() as env:
                for _ in range(1 if self._operation.on_new else 2):
                    passed = self._act(env, None)
        return passed

    def _chosen(self, passed: Sequence[Place]) -> Sequence[Place | int]:
        """Return the moments to try. Places are chosen by name, so that each run tries the same ones."""
        if self._most is None:
            return range(len(passed))
        return sorted(set(passed), key=lambda place: zlib.crc32(place.encode()))[: self._most]

    def _tried(self, places: Sequence[Place | int]) -> str | None:
        with contextlib.ExitStack() as stack:
            env = None if self._operation.on_new else stack.enter_context(self._environment())
            for place in places:
                self.tried += 1
                self._last = place
                with contextlib.ExitStack() as own:
                    used = env or own.enter_context(self._environment())
                    self._act(used, place)
                    if problem := None if self._operation.ends else self._wrong(used):
                        return f"at {place}: {problem}"
            if env and not wait_until(lambda: running(env, self._word) == 0, HUNG):
                return "a process without a handle goes on"
        return None

    @contextlib.contextmanager
    def _environment(self) -> Iterator[BaseEnvironment]:
        """Yield an environment, started unless the operation starts it."""
        env = create_environment(**self._settings)  # type: ignore[arg-type]
        if not self._operation.is_first:
            self._here.call(lambda: env.execute("export EXPORTED=kept; PLAIN=kept"))
            self._here.call(lambda: env.execute_oneshot("true"))
        yield env
        self._there.call(env.cleanup)

    def _act(self, env: BaseEnvironment, place: Place | int | None) -> list[Place]:
        """Call the operation in the caller's thread, raise at a moment of it, and return the moments passed."""
        context: Context = {"word": self._word}

        def act() -> list[Place]:
            # An interrupted method may raise an error of its own.
            with contextlib.suppress(Exception) if place is not None else contextlib.nullcontext():
                return raise_at(place, lambda: self._operation.act(env, context))
            return []

        self._there.call(lambda: self._operation.prepare(env, context))
        passed = self._here.call(act)
        self._there.call(lambda: self._operation.undo(env, context))
        return passed

    def _wrong(self, env: BaseEnvironment) -> str | None:
        """Return the error of the next call, in the caller's thread or in another; None if it is right."""
        kept = [] if self._operation.is_first else ["kept", "kept"]
        for where, caller in (("here", self._here), ("in another thread", self._there)):
            try:
                command = caller.call(lambda: env.execute("echo new $EXPORTED $PLAIN", timeout=HUNG - 2))
                oneshot = caller.call(lambda: env.execute_oneshot("echo new", timeout=HUNG - 2))
            except TerminalError as error:
                return f"the next call {where} raises {error!r}"
            if (command.output.split(), command.exit_code) != (["new", *kept], 0):
                return f"the next execute {where} gives {command}"
            if (oneshot.output, oneshot.exit_code) != ("new\n", 0):
                return f"the next execute_oneshot {where} gives {oneshot}"
        return None

    def _left(self, before: Mapping[str, int]) -> str | None:
        """Return the leftovers here and in the target; None if there are none."""
        left: list[str] = []

        def is_clean() -> bool:
            gc.collect()
            now = _held()
            left[:] = [f"{name}: {before[name]} before, {now[name]} now" for name in now if now[name] > before[name]]
            found = type(self._new()).list_targets()
            left.extend(f"{target.kind} {target.id}" for target in found if target.task == self._word)
            return not left

        for _ in range(LOOKS):
            if is_clean():
                return None
            time.sleep(HUNG / LOOKS)
        return f"left in the end: {'; '.join(left)}"

    def _new(self) -> BaseEnvironment:
        return create_environment(**self._settings)  # type: ignore[arg-type]


def _held() -> dict[str, int]:
    """Return the counts of file descriptors, threads and children of this process."""
    return {
        "descriptors": len(list(Path("/proc/self/fd").iterdir())),
        "threads": len(running_threads()),
        "children": len(psutil.Process().children(recursive=True)),
    }


def verdict(settings: Mapping[str, object], operation: str, most: int | None) -> str:
    """Try an operation, and return `right at N moments`, or `wrong: ` and the problem. Arguments as of `Trial`."""
    trial = Trial(settings, OPERATIONS[operation], most)
    problem = trial.problem()
    return f"wrong: {problem}" if problem else f"right at {trial.tried} moments"


def main() -> None:
    """Try the operation of the command line's arguments, and print the verdict."""
    settings, operation, most = sys.argv[1:]
    print(found := verdict(json.loads(settings), operation, json.loads(most)), flush=True)
    os._exit(found.startswith("wrong"))  # a hanging thread would keep the interpreter alive


if __name__ == "__main__":
    main()
