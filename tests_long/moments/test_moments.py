"""An exception in the caller's thread changes nothing about the next call: every moment on local, more on engines."""

from __future__ import annotations

from pathlib import Path

import pytest
from targets.moments import problem_of, settings_of, trials
from targets.operations import OPERATIONS

MOMENTS = {"local": None, "docker": 40, "singularity": 40, "ssh": 40}
"""Places in the code tried of each operation; None is every moment."""
FOUND: dict[str, str] = {}
"""Operations that fail today, with the findings that say why."""


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("backend", "operation"), trials(MOMENTS, OPERATIONS, FOUND))
def test_an_exception_at_any_moment_changes_nothing_about_the_next_call(
    backend: str, operation: str, tmp_path: Path
) -> None:
    with settings_of(backend, tmp_path) as settings:
        found = problem_of(settings, operation, MOMENTS[backend])
    assert found.startswith("right"), found
