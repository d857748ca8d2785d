"""Python sessions on each engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from targets.backends import bubblewrap, docker, singularity, ssh
from targets.python_sessions import *  # noqa: F403  # tests for every backend with streams in both directions

from environments import BaseEnvironment


@pytest.fixture(scope="module", params=(bubblewrap, docker, ssh, singularity), ids=lambda backend: backend.__name__)
def anywhere(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BaseEnvironment]:
    work: Path = tmp_path_factory.mktemp("work")
    with request.param(work) as subject, subject.make() as env:
        yield env
