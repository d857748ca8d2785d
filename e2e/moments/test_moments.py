"""An exception in the caller's thread changes nothing about the next call: on engines.

tests/moments tries the same on local, tests_long/moments every moment of every method there.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from targets.moments import check_moments, trials
from targets.operations import OF_A_BACKEND

MOMENTS = 12
"""Places in the code tried of each operation."""
ENGINES = ("docker", "ssh")
"""Singularity's stream is a local process's: it is tried in tests_long/moments."""


OF_A_LIST = ("set_network", "execute of a first command", "renew")
"""Operations that start or change the proxy of a list of hosts."""


@pytest.mark.parametrize(
    ("backend", "operation"), [*trials(ENGINES, OF_A_BACKEND), *trials(("bubblewrap",), OF_A_LIST)]
)
def test_an_exception_at_any_moment_changes_nothing_about_the_next_call(
    backend: str, operation: str, tmp_path: Path
) -> None:
    check_moments(backend, operation, MOMENTS, tmp_path)
