"""An exception in the caller's thread changes nothing about the next call: on Docker, SSH and Singularity."""

from __future__ import annotations

from pathlib import Path

import pytest
from targets.moments import marked, problem_of, settings_of

MOMENTS = 12
"""Places in the code tried of each operation; tests_long/moments tries more."""
OPERATIONS = (
    "execute",
    "execute with a callback",
    "execute that times out",
    "execute of a first command",
    "execute_oneshot",
    "start",
    "write_bytes",
    "put_dir",
    "Process.read",
    "Process.kill",
    "cleanup",
    "execute_code with a tool call",
)
"""Operations in which a backend's stream, files or start take part."""
FOUND: dict[str, str] = {}
"""Operations that fail today on each of these backends, with the findings that say why."""


@pytest.mark.parametrize("backend", ["docker", "singularity", "ssh"])
@pytest.mark.parametrize("operation", [marked(FOUND, operation) for operation in OPERATIONS])
def test_an_exception_at_any_moment_changes_nothing_about_the_next_call(
    backend: str, operation: str, tmp_path: Path
) -> None:
    with settings_of(backend, tmp_path) as settings:
        found = problem_of(settings, operation, MOMENTS)
    assert found.startswith("right"), found
