"""Starts for a pool: concurrency, rate, backoff, and the effect of a failed start on waiting borrowers."""

from __future__ import annotations

import errno
import time

import pytest
from targets.lease_threads import LeaseThread, all_leased, until

from environments import EnvironmentLostError, EnvironmentStartError, SettingsError, UnsupportedError
from environments.errors import StartStoppedError, without_cause
from environments.pool import pool as pool_module
from environments.pool.backoff import LONGEST_DELAY, StartPlace, Verdict, delay, verdict
from environments.starting import StartLimits


class AnswerError(Exception):
    """An error of a client library, with the HTTP status."""

    def __init__(self, status: int) -> None:
        super().__init__(f"the answer was {status}")
        self.status_code = status


def service_error(status: int = 503) -> EnvironmentStartError:
    error = EnvironmentStartError("backend 'scripted': no target can be started")
    error.__cause__ = AnswerError(status)
    return error


def permanent_error() -> EnvironmentStartError:
    return EnvironmentStartError("backend 'scripted' has no image nowhere")


# The meaning of an error.


def test_transient_and_permanent_errors_are_distinguished() -> None:
    rows = [
        (service_error(429), Verdict.BUSY),
        (service_error(503), Verdict.BUSY),
        (service_error(404), Verdict.PERMANENT),
        (without_cause(service_error(503)), Verdict.BUSY),
        (without_cause(service_error(404)), Verdict.PERMANENT),
        (EnvironmentStartError("backend 'docker': no container can be started: no space left on device"), Verdict.BUSY),
        (EnvironmentStartError("backend 'ssh': Error reading SSH protocol banner"), Verdict.BUSY),
        (EnvironmentStartError("backend 'modal': RESOURCE_EXHAUSTED"), Verdict.BUSY),
        (OSError(errno.EMFILE, "Too many open files"), Verdict.BUSY),
        (permanent_error(), Verdict.PERMANENT),
        (SettingsError("too many words for a setting"), Verdict.PERMANENT),
        (UnsupportedError("backend 'scripted' has no quota"), Verdict.PERMANENT),
        (EnvironmentLostError("it went away"), Verdict.TRANSIENT),
        (StartStoppedError("the start was stopped"), Verdict.TRANSIENT),
        (RuntimeError("of a backend's own"), Verdict.TRANSIENT),
    ]
    assert [(error, found) for error, means in rows if (found := verdict(error)) is not means] == []


def test_pauses_grow_up_to_a_limit() -> None:
    first, later, last = (max(delay(refusals) for _ in range(50)) for refusals in (1, 4, 1000))
    assert first < later < last <= LONGEST_DELAY
    assert len({delay(3) for _ in range(50)}) > 1, "not all who were refused ask again at the same moment"


# The effect of an error.


def test_an_engine_that_has_too_much_to_do_is_asked_again(scripted_pool, starts) -> None:
    starts.errors.extend(service_error() for _ in range(3))
    pool = scripted_pool()
    assert LeaseThread(pool).join() == "works\n"
    assert starts.tries == 4 and pool.stats().failed == 3


def test_an_engine_that_refuses_is_asked_by_one_start_at_a_time(scripted_pool, starts) -> None:
    starts.may_start.clear()
    starts.errors.extend(service_error() for _ in range(8 + 3))
    pool = scripted_pool(max=8)
    borrowers = [LeaseThread(pool) for _ in range(8)]
    assert until(lambda: starts.starting == 8)
    starts.may_start.set()
    assert [each.join() for each in borrowers] == ["works\n"] * 8
    assert starts.together[8:12] == [1, 1, 1, 1], "the one finds out for the others"


def test_waiting_borrowers_get_the_engines_refusal_in_the_end(scripted_pool, starts, monkeypatch) -> None:
    monkeypatch.setattr(pool_module, "REFUSALS", 3)
    starts.always = service_error()
    pool = scripted_pool()
    errors = [each.join() for each in (LeaseThread(pool), LeaseThread(pool))]
    assert [type(each) for each in errors] == [EnvironmentStartError] * 2
    assert errors[0] is not errors[1], "each thread has a traceback of its own"
    assert starts.tries >= 3


def test_a_wait_that_ends_before_says_that_the_engine_refuses(scripted_pool, starts, monkeypatch) -> None:
    monkeypatch.setattr(pool_module, "REFUSALS", 10**6)
    starts.always = service_error()
    waiting = LeaseThread(scripted_pool(), timeout=0.3)
    assert "the last start was refused: backend 'scripted': no target can be started" in str(waiting.join())


def test_a_permanent_failure_is_raised_for_all_waiting_borrowers(scripted_pool, starts) -> None:
    starts.may_start.clear()
    starts.always = permanent_error()
    pool = scripted_pool(max=1)
    borrowers = [LeaseThread(pool) for _ in range(5)]
    assert until(lambda: pool.stats().waiting == 5)
    starts.may_start.set()
    assert [str(each.join()) for each in borrowers] == [str(permanent_error())] * 5
    assert starts.tries == 1
    starts.always = None
    assert LeaseThread(pool).join() == "works\n", "who comes later tries again"


def test_a_transient_failure_is_raised_for_one_borrower(scripted_pool, starts) -> None:
    starts.may_start.clear()
    starts.errors.append(EnvironmentLostError("it went away"))
    pool = scripted_pool(max=1)
    borrowers = [LeaseThread(pool) for _ in range(3)]
    assert until(lambda: pool.stats().waiting == 3)
    starts.may_start.set()
    came = [each.join() for each in borrowers]
    assert sorted(map(str, came)) == ["it went away", "works\n", "works\n"]


def test_a_pool_that_cannot_be_stocked_does_not_try_without_pause(scripted_pool, starts, monkeypatch) -> None:
    monkeypatch.setattr("environments.pool.backoff.FIRST_DELAY", 3600.0)
    monkeypatch.setattr("environments.pool.backoff.LONGEST_DELAY", 3600.0)
    starts.always = permanent_error()
    pool = scripted_pool(min=1)
    assert until(lambda: pool.stats().failed == 1)
    with pytest.raises(EnvironmentStartError, match="nowhere"), pool.environment():
        pass
    assert starts.tries == 2, "one for the stock, and one for who asked"


# Concurrency and rate.


def test_starts_of_all_pools_in_one_place_count(scripted_pool, starts) -> None:
    starts.may_start.clear()
    pools = [scripted_pool(min=4, max_starting=2), scripted_pool(min=4, max_starting=2)]
    assert until(lambda: starts.starting == 2)
    starts.may_start.set()
    assert until(lambda: all(pool.stats().idle == 4 for pool in pools))
    assert starts.most_starting == 2


def test_starts_of_a_place_have_a_pause_between_them() -> None:
    place, limits = StartPlace(), StartLimits(per_second=0.001)
    assert place.begin(limits) == 0
    assert 0 < place.begin(limits) <= 1000
    assert place.begin(StartLimits()) == 0, "who has no such limit is not held to another's"


def test_a_waiting_start_is_woken_when_another_has_ended() -> None:
    place, limits, told = StartPlace(), StartLimits(at_once=1), []
    place.watch(lambda: told.append("ended"))
    assert place.begin(limits) == 0
    assert place.begin(limits) == float("inf")
    place.end(refused=False)
    assert told == ["ended"]
    assert place.begin(limits) == 0


def test_a_pool_that_starts_few_a_second_serves_all_the_same(scripted_pool, starts) -> None:
    pool = scripted_pool(max=4, start_rate=50.0)
    began = time.monotonic()
    with all_leased(pool, 4):
        assert time.monotonic() - began >= 3 / 50
