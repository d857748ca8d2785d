from __future__ import annotations

from cost.budget import OF_A_CONTAINER, ON_THIS_MACHINE, OVER_A_STREAM, UNITS, excess, most


def test_what_is_over_the_budget_is_said_in_a_line_each():
    budget = most("the command goes there, its end comes back", round_trips=1, processes=0, bytes_out=100)
    counted = {"round_trips": 3.0, "processes": 0.5, "bytes_out": 100.0}
    assert excess("execute on Docker", counted, budget) == [
        "execute on Docker: 3 round trips, at most 1 (the command goes there, its end comes back)",
        "execute on Docker: 0.5 processes started, at most 0 (the command goes there, its end comes back)",
    ]


def test_every_budget_has_its_reason_and_known_units():
    for table in (ON_THIS_MACHINE, OVER_A_STREAM, OF_A_CONTAINER):
        for budget in table.values():
            assert budget.why and budget.most and budget.most.keys() <= UNITS.keys()
