"""An exception in the caller's thread does not change the next call, on engines.

tests/moments does the same on the backend local; tests_long/moments tries every moment of every method.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from targets.moments import check_moments, trials
from targets.operations import OF_A_BACKEND

MOMENTS = 12
"""Number of places in the code tried for each operation."""
ENGINES = ("docker", "ssh")
"""Singularity has the stream of a local process, and is left to tests_long/moments."""
PROXY_OPERATIONS = ("set_network", "execute of a first command", "renew")
"""Operations that start or change the network proxy."""


@pytest.mark.parametrize(
    ("backend", "operation"), [*trials(ENGINES, OF_A_BACKEND), *trials(("bubblewrap",), PROXY_OPERATIONS)]
)
def test_an_exception_at_any_moment_changes_nothing_about_the_next_call(
    backend: str, operation: str, tmp_path: Path
) -> None:
    check_moments(backend, operation, MOMENTS, tmp_path)
