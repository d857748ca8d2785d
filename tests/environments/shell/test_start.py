"""Starts of a target: waiting callers, ways to stop a start, and the removal of partly made targets."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from targets.stopped_starts import LONGEST, WAYS, Stop, by_a_limit, by_interrupt, our_threads, starting

from environments import CommandResult, EnvironmentStartError, TerminalError, load_settings
from environments.cancellation import CancelScope, start_limit
from environments.conformance.check import wait_until
from environments.errors import CallCancelledError, StartStoppedError
from environments.progress import Progress
from environments.shell.child_stream import ChildStream
from environments.shell.environment import PersistentShellEnvironment
from environments.shell.stream import Stream, Terminal
from environments.starting import current_start


class Slow(PersistentShellEnvironment):
    """This machine, as a target that is up once the test releases it."""

    def __init__(self, cwd: Path) -> None:
        super().__init__(load_settings("local", cwd=str(cwd)))
        self.begun, self.come_up = threading.Event(), threading.Event()
        self.starts = self.stops = self.undone = 0
        self.ignores_stop = False
        self.error: Exception | None = None

    def start_target(self) -> None:
        self.starts += 1
        self.begun.set()
        if self.ignores_stop:
            self.come_up.wait()
        else:
            with current_start().aborting(self.come_up.set):
                self.come_up.wait()
                current_start().check()
        if self.error:
            raise self.error

    def open_stream(self, argv: Sequence[str], terminal: Terminal | None = None) -> Stream:
        return ChildStream(argv, terminal=terminal)

    def stop_target(self) -> None:
        self.stops += 1


class SlowOnTheLoop(Slow):
    """A slow start by a coroutine function."""

    makes = False
    """True if a stopped start has to be undone."""

    async def start_target(self) -> None:
        self.starts += 1
        self.begun.set()
        if self.makes:
            await current_start().await_detachable(self._comes_up(), self._undone)
        else:
            await self._comes_up()
        if self.error:
            raise self.error

    async def _comes_up(self) -> None:
        while not self.come_up.is_set():
            with contextlib.suppress(asyncio.CancelledError) if self.ignores_stop else contextlib.nullcontext():
                await asyncio.sleep(0.002)

    async def _undone(self) -> None:
        assert self.come_up.is_set(), "the start has ended"
        await asyncio.sleep(0.002)
        self.undone += 1
        if self.error:
            raise self.error


@pytest.fixture(params=[Slow, SlowOnTheLoop])
def env(request: pytest.FixtureRequest, tmp_path: Path):
    made = request.param(tmp_path)
    yield made
    made.come_up.set()
    made.cleanup()


def retry(env: Slow) -> str:
    env.come_up.set()
    return env.execute("echo works").output


@pytest.mark.parametrize("stop", WAYS[:3], ids=lambda way: way.__name__)
def test_a_stopped_start_is_tried_again_by_the_next_command(env: Slow, stop: Stop):
    stop(env, env.begun.wait)
    assert retry(env) == "works\n" and env.starts == 2


class Tidy(Slow):
    """A slow start whose removal takes a moment after a stop."""

    def start_target(self) -> None:
        try:
            super().start_target()
        except StartStoppedError:
            time.sleep(0.3)
            self.undone += 1
            raise


@pytest.mark.parametrize("stop", WAYS[:3], ids=lambda way: way.__name__)
def test_a_stopped_start_is_removed_before_its_callers_get_the_error(tmp_path: Path, stop: Stop):
    env = Tidy(tmp_path)
    stop(env, env.begun.wait)
    assert env.undone == 1
    env.come_up.set()
    env.cleanup()


def test_an_event_of_the_command_stops_the_start(env: Slow):
    event, errors = threading.Event(), list[TerminalError]()

    def work() -> None:
        try:
            env.execute_oneshot("true", interrupt=event)
        except TerminalError as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    env.begun.wait()
    event.set()
    thread.join(LONGEST)
    assert [str(error) for error in errors] == ["backend 'local': the start was stopped: it was interrupted"]
    assert isinstance(errors[0], StartStoppedError)
    assert retry(env) == "works\n"


def test_control_c_in_the_caller_stops_the_start_and_the_next_command_works(env: Slow):
    me = threading.get_ident()

    def press() -> None:
        env.begun.wait()
        signal.pthread_kill(me, signal.SIGINT)

    thread = threading.Thread(target=press)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        env.execute("true")
    thread.join(LONGEST)
    assert wait_until(lambda: not our_threads())
    assert retry(env) == "works\n"


def test_a_start_goes_on_while_other_callers_wait_for_it(env: Slow):
    scope, results = CancelScope(), list[str]()
    with starting(env, scope.active()) as errors:
        env.begun.wait()
        other = threading.Thread(target=lambda: results.append(env.execute_oneshot("echo works").output))
        other.start()
        assert wait_until(lambda: env.life._starting is not None and env.life._starting._waiting == 2)
        scope.cancel()
        assert wait_until(lambda: bool(errors))
        env.come_up.set()
    other.join(LONGEST)
    assert results == ["works\n"] and env.starts == 1 and isinstance(errors[0], StartStoppedError)


def test_an_error_of_a_start_is_raised_in_its_caller(env: Slow):
    env.error = EnvironmentStartError("no such place")
    env.come_up.set()
    with pytest.raises(EnvironmentStartError, match="no such place"):
        env.execute("true")
    env.error = None
    assert env.execute("echo works").output == "works\n"


def test_a_stopped_caller_does_not_wait_for_a_start_that_cannot_be_aborted(env: Slow):
    env.ignores_stop = True
    by_interrupt(env, env.begun.wait)
    assert env.starts == 1
    assert retry(env) == "works\n" and env.starts == 1  # the first start came up after all


def test_a_target_that_comes_up_after_cleanup_is_stopped(env: Slow, monkeypatch):
    monkeypatch.setattr("environments.shell.lifecycle.CLOSE_GRACE", 0.1)
    env.ignores_stop = True
    with starting(env) as errors:
        env.begun.wait()
        env.cleanup()
    assert isinstance(errors[0], StartStoppedError)
    stops = env.stops
    env.come_up.set()
    assert wait_until(lambda: not our_threads() and env.stops == stops + 1)


@pytest.mark.parametrize("error", [None, EnvironmentStartError("no such place")])
@pytest.mark.parametrize("stop", WAYS, ids=lambda way: way.__name__)
def test_a_detached_coroutine_of_a_stopped_start_is_undone_once(
    tmp_path: Path, stop: Stop, error: Exception | None, caplog: pytest.LogCaptureFixture
):
    with SlowOnTheLoop(tmp_path) as env:
        env.makes, env.error = True, error
        stop(env, env.begun.wait)
        assert our_threads() and not env.undone
        env.come_up.set()
        assert wait_until(lambda: not our_threads())
        assert env.undone == 1
        assert bool(error) == ("could not be removed" in caplog.text)
        env.error = None
        if stop is not WAYS[-1]:
            assert env.execute("echo works").output == "works\n"
            assert (env.starts, env.undone) == (2, 1)


@pytest.mark.parametrize("stop", WAYS[:3], ids=lambda way: way.__name__)
def test_cleanup_waits_until_a_detached_coroutine_is_undone(tmp_path: Path, stop: Stop):
    env = SlowOnTheLoop(tmp_path)
    env.makes = True
    stop(env, env.begun.wait)
    threading.Timer(0.3, env.come_up.set).start()
    env.cleanup()
    assert env.undone == 1


def test_a_scope_that_was_cancelled_before_starts_nothing(env: Slow):
    scope = CancelScope()
    scope.cancel()
    with scope.active():
        assert env.execute("true").interrupted
        assert env.execute_oneshot("true").interrupted
        with pytest.raises(CallCancelledError):
            env.start("true")
    assert not our_threads()


def test_the_time_of_a_command_does_not_bound_its_start(env: Slow):
    results: list[str] = []
    thread = threading.Thread(target=lambda: results.append(env.execute("echo works; sleep 1000", timeout=0.2).output))
    thread.start()
    env.begun.wait()
    thread.join(0.3)
    env.come_up.set()
    thread.join(LONGEST)
    assert results == ["works\n"]


def test_the_error_of_a_start_limit_names_the_limit(env: Slow):
    with start_limit(0.25), pytest.raises(StartStoppedError, match=r"not up within 0\.25 s") as caught:
        env.execute("true")
    assert caught.value.timed_out


def test_an_interrupted_callback_stops_a_start(env: Slow):
    asked = threading.Event()
    with starting(env, start_limit(1e9, interrupted=asked.is_set)) as errors:
        env.begun.wait()
        asked.set()
    (error,) = errors
    assert isinstance(error, StartStoppedError) and not error.timed_out


def test_a_callback_of_a_start_cannot_use_the_environment(env: Slow):
    errors: list[TerminalError] = []

    def use(progress: Progress) -> None:
        try:
            env.execute("true")
        except TerminalError as error:
            errors.append(error)

    env.progress.callback = use
    assert retry(env) == "works\n"
    assert "on_progress" in str(errors[0])


class SilentShells(Slow):
    """A target that is up at once, whose shells print nothing until the test releases them."""

    def start_target(self) -> None:
        self.starts += 1

    def open_stream(self, argv: Sequence[str], terminal: Terminal | None = None) -> Stream:
        self.begun.set()
        return ChildStream(argv if self.come_up.is_set() else ["sleep", "1000"], terminal=terminal)


@pytest.fixture
def silent(tmp_path: Path):
    with SilentShells(tmp_path) as made:
        yield made


def test_a_start_limit_ends_the_wait_for_a_silent_shell(silent: SilentShells):
    by_a_limit(silent, silent.begun.wait)
    assert retry(silent) == "works\n"


@pytest.mark.parametrize("name", ["execute", "execute_oneshot"])
def test_a_command_that_is_interrupted_before_its_shell_answers_has_not_run(silent: SilentShells, name: str):
    results, scope, event = list[CommandResult](), CancelScope(), threading.Event()

    def work() -> None:
        with scope.active():
            results.append(getattr(silent, name)("true", interrupt=event))

    thread = threading.Thread(target=work)
    thread.start()
    silent.begun.wait()
    if name == "execute":
        silent.interrupt()
    else:
        silent.interrupt()  # interrupts the session alone
        assert thread.is_alive()
        event.set()
    thread.join(LONGEST)
    assert results[0].interrupted and results[0].exit_code == 130
    assert retry(silent) == "works\n"


def test_a_silent_shell_does_not_delay_cleanup(silent: SilentShells):
    with starting(silent) as errors:
        silent.begun.wait()
        silent.cleanup()
    assert "cleaned up" in str(errors[0])
