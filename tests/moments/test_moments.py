"""Exceptions in the caller's thread, on local: the next call is right.

e2e/moments runs the same on engines, tests_long/moments every moment of every method.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from targets.moments import check_moments, trials
from targets.operations import OF_A_BACKEND, OPERATIONS

from environments import BaseEnvironment, EnvironmentSession, Process
from environments.internal import Internal

MOMENTS = 12
"""Places in the code tried of each operation."""


@pytest.mark.parametrize(("backend", "operation"), trials(["local"], OF_A_BACKEND))
def test_an_exception_at_any_moment_changes_nothing_about_the_next_call(
    backend: str, operation: str, tmp_path: Path
) -> None:
    check_moments(backend, operation, MOMENTS, tmp_path)


FOR_BACKENDS = {
    "create", "probe", "settings_class", "list_targets", "start_limits", "files", "prepare", "address",
    "run_beside", "run_in_background", "run_in_session", "known_cwd", "observed_by",
}  # fmt: skip
"""Names for backends and rooms above, and methods without an interruptible call of a user."""


def test_every_public_method_is_tried() -> None:
    tried = {name.rpartition(".")[2] for operation in OPERATIONS.values() for name in operation.names}
    public = {
        name
        for kind in (BaseEnvironment, EnvironmentSession, Internal, Process)
        for name, _ in [*vars(kind).items(), *((name, None) for base in kind.__mro__[1:-1] for name in vars(base))]
        if not name.startswith("_")
    }
    assert public - FOR_BACKENDS - tried == set()
