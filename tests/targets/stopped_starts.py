"""All ways to stop a hanging start."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from environments import BaseEnvironment, TerminalError
from environments.cancellation import CancelScope, start_limit
from environments.errors import StartStoppedError
from environments.loop import current

Stop = Callable[[BaseEnvironment, Callable[[], object]], StartStoppedError]
"""Starts an environment, waits for a call that returns once the start hangs, and stops the start."""
LONGEST = 30.0
"""Time-out of a wait in seconds. Starts here hang far longer."""
SHORT = 1.0
"""Start limit in seconds."""


@contextmanager
def starting(
    env: BaseEnvironment, within: AbstractContextManager[object] | None = None
) -> Iterator[list[TerminalError]]:
    """Run a first command in another thread, and yield a list that holds its error after the block."""
    errors: list[TerminalError] = []

    def work() -> None:
        try:
            with within or nullcontext():
                env.execute("true")
        except TerminalError as error:
            errors.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    yield errors
    thread.join(LONGEST)
    assert not thread.is_alive(), "the start goes on"


def _the_one(errors: list[TerminalError]) -> StartStoppedError:
    (error,) = errors
    assert isinstance(error, StartStoppedError), error
    return error


def by_interrupt(env: BaseEnvironment, when_it_hangs: Callable[[], object]) -> StartStoppedError:
    with starting(env) as errors:
        when_it_hangs()
        env.interrupt()
    return _the_one(errors)


def by_its_scope(env: BaseEnvironment, when_it_hangs: Callable[[], object]) -> StartStoppedError:
    scope = CancelScope()
    with starting(env, scope.active()) as errors:
        when_it_hangs()
        scope.cancel()
    return _the_one(errors)


def by_a_limit(env: BaseEnvironment, when_it_hangs: Callable[[], object]) -> StartStoppedError:
    with starting(env, start_limit(SHORT)) as errors:
        when_it_hangs()
    error = _the_one(errors)
    assert error.timed_out and f"not up within {SHORT:g} s" in str(error)
    return error


def by_cleanup(env: BaseEnvironment, when_it_hangs: Callable[[], object]) -> StartStoppedError:
    with starting(env) as errors:
        when_it_hangs()
        env.cleanup()
    return _the_one(errors)


WAYS: list[Stop] = [by_interrupt, by_its_scope, by_a_limit, by_cleanup]


def our_threads() -> list[str]:
    """Return the names of the starts' threads and tasks."""
    names = [thread.name for thread in threading.enumerate()]
    names += [task.get_name() for task in asyncio.all_tasks(current().loop)]
    return [name for name in names if name.startswith("hermes-start")]
