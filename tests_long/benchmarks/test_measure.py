"""Measurement in turns, and the table on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.measure import UnavailableError, in_turn
from benchmarks.table import OURS, RAW, Row


def test_ways_to_do_the_same_work_take_turns() -> None:
    order: list[str] = []

    def timer_of(name: str) -> object:
        def timer() -> Sequence[float]:
            order.append(name)
            return (1.0,)

        return timer

    found = in_turn({name: timer_of(name) for name in "abc"}, seconds=0, least_rounds=2)  # type: ignore[misc]
    assert "".join(order) == "abcabcabc"
    assert {name: times.count for name, times in found.times.items()} == {"a": 2, "b": 2, "c": 2}


def test_an_unavailable_way_is_left_out_with_its_reason() -> None:
    def failing() -> Sequence[float]:
        raise UnavailableError("no such tool")

    found = in_turn({"a": lambda: (1.0,), "b": failing}, seconds=0, least_rounds=2, missing={"c": "not installed"})
    assert set(found.times) == {"a"}
    assert found.missing == {"b": "no such tool", "c": "not installed"}


def test_a_row_says_whether_the_goal_is_reached() -> None:
    measured = in_turn({RAW: lambda: (1.0,), OURS: lambda: (1.4,)}, seconds=0, least_rounds=1)
    assert Row.of("a command", measured, goal=1.5).reached is True
    assert Row.of("a command", measured, goal=1.3).reached is False
    assert Row.of("a command", measured, goal=1.38).reached is True, "to a tenth"
    assert Row.of("a command", measured, limit=1.0).reached is False
    assert Row.of("a command", measured).reached is None


def test_a_failure_of_this_package_is_noted_in_its_own_row_alone() -> None:
    def failing() -> Sequence[float]:
        raise UnavailableError("the script ended with error")

    timers = {RAW: lambda: (1.0,), OURS: failing, f"{OURS}: file": lambda: (2.0,)}
    measured = in_turn(timers, seconds=0, least_rounds=1)
    failed, other = Row.of("a call", measured), Row.of("a call by files", measured, ours=f"{OURS}: file")
    assert failed.ours is None and failed.note == "not measured: the script ended with error"
    assert failed.missing == {} and other.missing == {}
    assert other.ours and other.note == ""
