"""An exception in the caller's thread does not affect the next call: every method, on local at each moment."""

from __future__ import annotations

from pathlib import Path

import pytest
from targets.moments import check_moments, trials
from targets.operations import OF_A_BACKEND, OPERATIONS

MOST = {"local": None, "singularity": 12, "modal": 6, "daytona": 6}
"""The number of places in the code to try for each operation; None for all, on local."""


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("backend", "operation"),
    [*trials(["local"], OPERATIONS), *trials(["singularity", "modal", "daytona"], OF_A_BACKEND)],
)
def test_an_exception_at_any_moment_changes_nothing_about_the_next_call(
    backend: str, operation: str, tmp_path: Path
) -> None:
    check_moments(backend, operation, MOST[backend], tmp_path)
