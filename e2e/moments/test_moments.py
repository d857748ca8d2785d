"""An exception in the caller's thread changes nothing about the next call: on engines, and all methods on local."""

from __future__ import annotations

from pathlib import Path

import pytest
from targets.moments import problem_of, settings_of, trials
from targets.operations import OF_A_BACKEND, OPERATIONS

MOMENTS = 12
"""Places in the code tried of each operation."""
ENGINES = ("docker", "ssh")
"""Singularity's stream is a local process's: it is tried in tests_long/moments."""
OTHERS = [name for name in OPERATIONS if name not in (*OF_A_BACKEND, "execute_oneshot that times out")]
"""All but one, whose bad moments are so few that these places do not always meet them: tests_long/moments does."""


@pytest.mark.parametrize(("backend", "operation"), [*trials(ENGINES, OF_A_BACKEND), *trials(["local"], OTHERS)])
def test_an_exception_at_any_moment_changes_nothing_about_the_next_call(
    backend: str, operation: str, tmp_path: Path
) -> None:
    with settings_of(backend, tmp_path) as settings:
        found = problem_of(settings, operation, MOMENTS)
    assert found.startswith("right"), found
