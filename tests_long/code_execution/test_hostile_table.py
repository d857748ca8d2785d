"""Each script of the table of hostile scripts, over each transport: the next script succeeds, no process is left."""

from __future__ import annotations

import pytest
from targets.hostile_table import HOSTILE, Ground, ground, of_each_way

__all__ = ["ground"]

ROWS = of_each_way(HOSTILE)


@pytest.mark.parametrize(("ground", "name"), ROWS, ids=[f"{way}-{name}" for way, name in ROWS], indirect=["ground"])
def test_after_a_hostile_script_the_next_succeeds_and_no_process_is_left(ground: Ground, name: str, nap: str) -> None:
    ground.check(name, nap)
