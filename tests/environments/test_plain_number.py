"""Numbers in messages."""

from __future__ import annotations

import math
import re
from pathlib import Path

from environments.plain_number import plain_number


def test_a_number_has_no_exponent_and_no_zeros_behind_the_point() -> None:
    rows = [(300, "300"), (300.0, "300"), (1.5, "1.5"), (10.0, "10"), (0, "0"), (0.1 + 0.2, "0.3"), (0.05, "0.05")]
    rows += [(0.00001, "0.00001"), (1e6, "1000000"), (1234567.8, "1234567.8"), (-5.0, "-5"), (math.inf, "inf")]
    assert [(value, plain_number(value)) for value, shown in rows if plain_number(value) != shown] == []


def test_no_message_shows_a_number_with_an_exponent() -> None:
    root = Path(__file__).parents[2]
    rooms = ["environments", "rpc", "hermes_tools", "code_execution", "hermes_env"]
    files = [file for room in rooms for file in (root / room).rglob("*.py") if file.name != "plain_number.py"]
    assert len(files) > 100
    assert [file for file in files if re.search(r":(\.\d+)?g\}", file.read_text("utf-8"))] == []
