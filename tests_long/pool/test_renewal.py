"""The reset of a pool's environments, on the cloud stand-ins and by short commands alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from targets.backends import Backend, daytona, modal, per_command
from targets.renew_check import check_renew


@pytest.mark.parametrize("backend", [daytona, modal, per_command], ids=lambda backend: backend.__name__)
def test_renew_resets_a_used_environment(backend: Backend, tmp_path: Path, nap: str) -> None:
    with backend(tmp_path) as subject:
        check_renew(subject, nap)
