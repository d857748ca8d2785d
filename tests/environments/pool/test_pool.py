"""Leases of a pool: number, duration, order, and the state of environments."""

from __future__ import annotations

import math
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from targets.lease_threads import LONG, LeaseThread, all_leased, until
from targets.per_command_local import PerCommandLocal
from targets.processes import all_gone
from targets.scripted_starts import ScriptedStartEnvironment
from targets.signals import raising_at
from targets.threads import running_threads

from environments import CallCancelledError, CancelScope, Pool, TerminalError
from environments.cancellation import start_limit
from environments.errors import StartStoppedError
from environments.sources import load_settings


def idle(pool: Pool, number: int) -> bool:
    return until(lambda: pool.stats().idle == number)


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


# Leases.


def test_each_borrower_has_an_unused_environment(make) -> None:
    pool = make(min=1, max=2)
    assert idle(pool, 1)
    tasks = set()
    for _ in range(3):
        with pool.environment() as env:
            assert env.is_ready, "there is a shell before the first command"
            assert env.execute("echo ${LEFT-nothing}; export LEFT=something").output == "nothing\n"
            tasks.add(env.settings.task_id)
    assert len(tasks) == 3
    assert until(lambda: pool.stats().lent == pool.stats().ending == 0)


def test_settings_may_be_given_in_every_form() -> None:
    for settings in ("local", None, load_settings("local"), {"backend": "local", "timeout": 7}):
        pool = Pool(settings) if settings else Pool()
        with pool, pool.environment() as env:
            assert env.backend == "local" == pool.settings.env
            assert env.settings.timeout == (7 if isinstance(settings, dict) else 180)


def test_waiting_borrowers_are_served_in_order(make) -> None:
    pool = make(max=1)
    served: list[int] = []
    with all_leased(pool):
        waiting = []
        for number in range(5):
            waiting.append(LeaseThread(pool, lambda _, number=number: served.append(number)))
            assert until(lambda: pool.stats().waiting == len(waiting))
    for borrower in waiting:
        borrower.join()
    assert served == [0, 1, 2, 3, 4]


# Waiting.


def test_a_wait_has_a_time_limit(make) -> None:
    pool = make(max=1)
    says = "no environment of the pool was free for 0[.]05 s; wait longer"
    with all_leased(pool), pytest.raises(StartStoppedError, match=says) as error, pool.environment(timeout=0.05):
        pass
    assert error.value.timed_out
    with pool.environment(timeout=LONG) as env:
        assert env.execute("echo works").output == "works\n"


def test_a_wait_ends_with_the_scope_or_the_limit_of_its_thread_or_an_event(make) -> None:
    pool = make(max=1)
    scope, event = CancelScope(), threading.Event()
    with all_leased(pool):
        waiting = [
            LeaseThread(pool, within=scope.active()),
            LeaseThread(pool, interrupt=event),
            LeaseThread(pool, within=start_limit(0.2)),
            last := LeaseThread(pool),
        ]
        assert until(lambda: pool.stats().waiting >= 3)
        scope.cancel()
        event.set()
        by_scope, by_event, by_limit = [each.join() for each in waiting[:3]]
        assert isinstance(by_scope, CallCancelledError) and isinstance(by_event, CallCancelledError)
        assert isinstance(by_limit, StartStoppedError) and by_limit.timed_out
        assert pool.stats().waiting == 1
    assert last.join() == "works\n", "the others have left the queue"


def test_a_start_for_a_borrower_that_has_left_serves_the_next_one(scripted_pool, starts) -> None:
    starts.may_start.clear()
    pool, event = scripted_pool(max=1), threading.Event()
    first = LeaseThread(pool, interrupt=event)
    assert until(lambda: starts.starting == 1)
    event.set()
    assert isinstance(first.join(), CallCancelledError)
    starts.may_start.set()
    assert LeaseThread(pool).join() == "works\n"
    assert starts.tries == 1


# Idle environments.


def test_idle_environments_above_min_are_ended(make) -> None:
    pool = make(min=1, max=4, idle=0.0, uses=100)
    with all_leased(pool, 3) as envs:
        assert len(set(envs)) == 3
    assert until(lambda: pool.stats().idle == 1 and pool.stats().ending == pool.stats().starting == 0)


def test_an_idle_environment_that_is_lost_is_replaced(scripted_pool, starts) -> None:
    pool = scripted_pool(min=1, max=2)
    assert idle(pool, 1)
    starts.lose()
    assert until(lambda: pool.stats().started == 2 and pool.stats().idle == 1)


def test_a_lost_environment_is_not_lent(scripted_pool, starts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ScriptedStartEnvironment, "look_interval", LONG)
    pool = scripted_pool(min=2, max=3)
    assert idle(pool, 2)
    starts.lose()
    with pool.environment() as env:
        assert env.execute("echo works").output == "works\n"
    assert pool.stats().started > 2


def test_an_environment_lost_by_its_service_is_not_lent(make) -> None:
    pool = make({"backend": f"{PerCommandLocal.__module__}:PerCommandLocal"}, min=1, max=2)
    with pool.environment() as env:
        assert env.execute("echo works").output == "works\n"
    assert idle(pool, 1)
    (member,) = pool._idle
    member.env.is_lost = True
    with pool.environment() as env:
        assert env is not member.env and env.execute("echo works").output == "works\n"
    assert idle(pool, 1), "a close during a start may wait for an answer"


# Several uses.


def test_a_reused_environment_has_files_and_nothing_else_of_its_last_use(make, tmp_path: Path, nap: str) -> None:
    pool = make(max=1, uses=2)
    with pool.environment() as first:
        first.execute(f"export LEFT=something; cd /; sleep {nap} & (setsid sleep {nap} &); echo kept >{tmp_path}/kept")
        first.session("other").execute(f"sleep {nap} &")
        first.start(f"sleep {nap}")
        first.passthrough.allow(["PATH"])
    with pool.environment() as second:
        assert all_gone(nap)
        assert second is first
        assert second.execute("echo ${LEFT-nothing}; pwd; cat kept").output == f"nothing\n{tmp_path}\nkept\n"
        assert second.passthrough.names == ()
    with pool.environment() as third:
        assert third is not first
        assert third.execute("cat kept").output == "kept\n", "the directory of this machine stays"


def test_a_broken_environment_is_not_lent_again(scripted_pool, starts) -> None:
    pool = scripted_pool(max=1, uses=9)
    for harm in (lambda env: env.cleanup(), lambda env: starts.lose(), lambda env: None):
        with pool.environment() as env:
            assert env.execute("echo works").output == "works\n"
            harm(env)


# The end.


def test_close_ends_all_environments_and_fails_all_waits(scripted_pool, starts, nap: str) -> None:
    before = running_threads()
    pool = scripted_pool(min=1, max=3)
    assert idle(pool, 1)
    starts.may_start.clear()
    runs = threading.Event()
    lent = LeaseThread(pool, lambda env: runs.set() or env.execute(f"sleep {nap}"))
    assert until(runs.is_set)
    assert until(lambda: starts.starting == 1), "the start of the next idle environment"
    waiting = [LeaseThread(pool) for _ in range(3)]
    assert until(lambda: pool.stats().waiting == 3)
    pool.close()
    assert starts.up == starts.starting == 0
    assert all_gone(nap)
    assert [str(each.join()) for each in waiting] == ["the pool was closed; make a new one"] * 3
    lent.join()
    pool.close()
    with pytest.raises(TerminalError, match="the pool was closed"), pool.environment():
        pass
    assert until(lambda: running_threads() <= before), running_threads() - before


class Alarm(BaseException):
    """Raised by the signal handler."""


def test_a_close_goes_on_after_an_exception_in_its_caller(
    scripted_pool, starts, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = scripted_pool(min=1)
    assert idle(pool, 1)
    may_end = threading.Event()
    cleanup = ScriptedStartEnvironment.cleanup
    monkeypatch.setattr(ScriptedStartEnvironment, "cleanup", lambda env: may_end.wait(LONG) and cleanup(env))

    with raising_at(signal.SIGALRM, Alarm):
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(Alarm):
            pool.close()
    assert starts.up == 1
    may_end.set()
    assert until(lambda: starts.up == 0), "without a second call"
    pool.close()
    assert pool.stats().ending == 0


def test_any_exception_of_a_start_is_raised_for_the_waiting_borrower(scripted_pool, starts, monkeypatch) -> None:
    def leaves(_: object) -> None:
        raise SystemExit("a callback has called sys.exit")

    pool = scripted_pool(max=1)
    with monkeypatch.context() as patch:
        patch.setattr(ScriptedStartEnvironment, "prepare", leaves)
        with pytest.raises(SystemExit, match="a callback"), pool.environment(LONG):
            pass
    assert LeaseThread(pool).join() == "works\n"


def test_a_closed_pool_leaves_nothing(make) -> None:
    make().close()  # starts the loop thread, whose descriptors stay open
    descriptors = open_descriptors()
    with make(min=4, max=8) as pool, ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda _: LeaseThread(pool).join(), range(16)))
    assert open_descriptors() <= descriptors
    stats = pool.stats()
    assert (stats.idle, stats.lent, stats.starting, stats.ending, stats.waiting) == (0, 0, 0, 0, 0)


def test_an_idle_pool_has_no_thread_of_its_own(make) -> None:
    before = running_threads()
    pool = make(min=8, max=8)
    assert idle(pool, 8)
    kept = {"hermes-loop", "hermes-worker-1", "hermes-worker-2"}
    assert until(lambda: {each.name for each in running_threads() - before} <= kept)


def test_a_forked_child_ends_nothing_of_its_parents(make) -> None:
    pool = make(min=1)
    assert idle(pool, 1)
    with pool.environment() as env:
        env.execute("export KEPT=yes")
        child = os.fork()
        if not child:
            try:
                pool.close()
                with pool.environment():
                    pass
            except TerminalError as error:
                os._exit(0 if "belongs to process" in str(error) else 3)
            finally:
                os._exit(4)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert env.execute("echo $KEPT").output == "yes\n"
    assert idle(pool, 1)


# Arguments.


def test_an_invalid_number_is_refused(make) -> None:
    rows = [
        ({"min": -1}, "min is -1; give at least 0"),
        ({"max": 0}, "max is 0; give a number from 1 on"),
        ({"min": 3, "max": 2}, "min is 3, above max, which is 2"),
        ({"uses": 0}, "uses is 0; give a number from 1 on"),
        ({"idle": -1.0}, "idle is -1.0 s; give a positive number"),
        ({"idle": math.nan}, "idle is nan s; give a positive number"),
        ({"start_rate": 0}, "start_rate is 0; give starts in a second, above 0"),
        ({"max_starting": 0}, "max_starting is 0; give a number from 1 on"),
    ]
    for named, says in rows:
        with pytest.raises(ValueError, match=says):
            Pool("local", **named)
    for name in ("min", "max", "idle", "uses", "start_rate", "max_starting"):
        for value in ("8", True):
            with pytest.raises(TypeError, match=f"{name} is of type {type(value).__name__}; give "):
                Pool("local", **{name: value})
    for timeout, error in ((-1, ValueError), (math.nan, ValueError), ("8", TypeError)):
        with pytest.raises(error, match="timeout is "), make().environment(timeout):
            pass
