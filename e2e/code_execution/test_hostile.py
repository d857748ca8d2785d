"""Some hostile scripts over each transport. tests_long/code_execution has all of them."""

from __future__ import annotations

import pytest
from targets.hostile_table import A_FEW, Ground, ground, of_each_way

__all__ = ["ground"]

ROWS = of_each_way(A_FEW)


@pytest.mark.parametrize(("ground", "name"), ROWS, ids=[f"{way}-{name}" for way, name in ROWS], indirect=["ground"])
def test_behind_a_hostile_script_the_next_is_right_and_nothing_is_left(ground: Ground, name: str, nap: str) -> None:
    ground.check(name, nap)
