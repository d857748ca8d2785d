"""An exception in the caller's thread at each moment of one operation: contract line 8, as a program.

A moment is where CPython may run a signal handler that raises: the start of a Python function, or the return of a C
call. `sys.setprofile` reports both, in the frames of this package and of the libraries below it. An operation is
called once for each moment, or for a sample of the places in the code, and the exception is raised there. Then the
next call has to be right in the same thread and in another one, and in the end nothing may be left.

Each operation is tried in a process of its own, as a failure leaves locks held, threads that hang and children:

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
"""Seconds after which a call that takes milliseconds hangs, also on a loaded machine."""


class Raised(BaseException):
    """The exception that is raised, as an alarm's handler or control-C would raise one."""


LOOKS = 10
"""Looks at what is left, before it is taken for left for good. Each goes through all processes."""

Place = str
"""Where a moment is: what was called, or has returned, from which function."""


def raise_at(place: Place | int | None, call: Callable[[], object]) -> list[Place]:
    """Call a function, and raise `Raised` at a moment of it.

    Args:
        place: The place, whose first moment is meant; or the number of the moment, from 0; None raises nowhere.
        call: The function.

    Returns:
        The places of the moments that passed, in their order.
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


class Caller:
    """A thread that calls functions, so that one that hangs costs the test no more than `HUNG`."""

    def __init__(self) -> None:
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="caller of a test", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while work := self._work.get():
            work()

    def call(self, function: Callable[[], T]) -> T:
        """Call a function in the thread, and return or raise what it returns or raises.

        Raises:
            Hung: It did not return in `HUNG` seconds, or an earlier call has not returned yet.
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
        """End the thread; one that hangs is left to the end of the program."""
        self._work.put(None)
        self._thread.join(1)


class Trial:
    """One operation, tried on environments of one kind.

    Args:
        settings: Arguments of `create_environment`.
        operation: The operation.
        most: Places in the code tried at most, always the same of them; None tries every moment.
    """

    def __init__(self, settings: Mapping[str, object], operation: Operation, most: int | None) -> None:
        self._word = f"moments{secrets.token_hex(6)}"
        """A word among the arguments of each long process that the operation starts, and the environments' task."""
        self._settings = {**settings, "task_id": self._word}
        self._operation = operation
        self._most = most and min(most, operation.most or most)
        self._here, self._there = Caller(), Caller()
        self.tried = 0
        """Moments tried so far."""
        self._last: Place | int = ""

    def problem(self) -> str | None:
        """Try the moments.

        Returns:
            What the first bad moment has changed for the next call, or what is left in the end; None if nothing.
        """
        try:
            passed = self._warm()
            before = _held()
            return self._tried(self._chosen(passed)) or self._left(before)
        except Hung:
            return f"a call hangs after {self.tried} moments, the last {self._last}"

    def _warm(self) -> list[Place]:
        """Call the operation undisturbed, and return its moments. What a first call imports or opens stays open."""
        passed: list[Place] = []
        for _ in range(2):
            with self._environment() as env:
                for _ in range(1 if self._operation.on_new else 2):
                    passed = self._act(env, None)
        return passed

    def _chosen(self, passed: Sequence[Place]) -> Sequence[Place | int]:
        """Return the moments to try. Places are chosen by their names alone, so that each run tries the same."""
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
                return "a process whose handle nobody has goes on"
        return None

    @contextlib.contextmanager
    def _environment(self) -> Iterator[BaseEnvironment]:
        """An environment, which has started unless the operation is to start it."""
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
            # A method whose work was cut short may raise an error of its own.
            with contextlib.suppress(Exception) if place is not None else contextlib.nullcontext():
                return raise_at(place, lambda: self._operation.act(env, context))
            return []

        self._there.call(lambda: self._operation.prepare(env, context))
        passed = self._here.call(act)
        self._there.call(lambda: self._operation.undo(env, context))
        return passed

    def _wrong(self, env: BaseEnvironment) -> str | None:
        """Return how the next call differs from the right one, in the caller's thread or in another; None if not."""
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
        """Return what is there beyond what was there before, here and in the target; None if nothing."""
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
    """Return how much this process holds of what an environment could leave."""
    return {
        "descriptors": len(list(Path("/proc/self/fd").iterdir())),
        "threads": len(running_threads()),
        "children": len(psutil.Process().children(recursive=True)),
    }


def verdict(settings: Mapping[str, object], operation: str, most: int | None) -> str:
    """Try an operation, and return `right at N moments`, or `wrong: ` and its problem. Arguments as of `Trial`."""
    trial = Trial(settings, OPERATIONS[operation], most)
    problem = trial.problem()
    return f"wrong: {problem}" if problem else f"right at {trial.tried} moments"


def main() -> None:
    """Try the operation that the arguments name, and print what comes of it."""
    settings, operation, most = sys.argv[1:]
    print(found := verdict(json.loads(settings), operation, json.loads(most)), flush=True)
    os._exit(found.startswith("wrong"))  # a thread that hangs would keep the interpreter from its end


if __name__ == "__main__":
    main()
