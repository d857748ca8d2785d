"""Reset of a pool's environments, on engines."""

from __future__ import annotations

from pathlib import Path

import pytest
from targets.backends import Backend, bubblewrap, docker, docker_listed, docker_minimal, singularity, ssh
from targets.renew_check import check_renew


@pytest.mark.parametrize(
    "backend",
    [bubblewrap, docker, docker_listed, docker_minimal, singularity, ssh],
    ids=lambda backend: backend.__name__,
)
def test_renew_resets_a_used_environment(backend: Backend, tmp_path: Path, nap: str) -> None:
    with backend(tmp_path) as subject:
        check_renew(subject, nap)
