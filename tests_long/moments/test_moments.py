"""An exception in the caller's thread changes nothing about the next call: every method, each moment on local."""

from __future__ import annotations

from pathlib import Path

import pytest
from targets.moments import FOUND, check_moments, trials
from targets.operations import OF_A_BACKEND, OPERATIONS

SELDOM = {
    "execute_oneshot": "11: the lock of the pool of shells stays held",
    "execute_oneshot with the session's exports": "9",
    "execute_oneshot that times out": "11 and 14",
    "session": "15",
    "read_bytes": "28: an open file is lost",
    "get_file": "28",
    "put_dir": "28",
    "get_dir": "28",
    "start": "11: a call hangs",
    "write_bytes": "11",
    "entries": "11",
    "execute of a first command": "11",
    "Process.expect": "11",
    "attributes": "25: the turn of the session stays taken",
    "execute_code": "11",
    "execute_code with a tool call": "11, and 28 on a loaded machine",
}
"""Operations whose bad moments are too few for the first two rings to meet each time."""

MOST = {"local": None, "singularity": 12}
"""Places in the code tried of each operation; on local, every moment."""


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("backend", "operation"),
    [*trials(["local"], OPERATIONS, FOUND | SELDOM), *trials(["singularity"], OF_A_BACKEND)],
)
def test_an_exception_at_any_moment_changes_nothing_about_the_next_call(
    backend: str, operation: str, tmp_path: Path
) -> None:
    check_moments(backend, operation, MOST[backend], tmp_path)
