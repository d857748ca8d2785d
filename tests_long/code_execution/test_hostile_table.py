"""Each script of the table of hostile scripts, over each transport: the next one is right, and nothing is left."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from targets.backends import docker, local
from targets.hostile_table import HOSTILE, Ground, of_each_way

ROWS = of_each_way(HOSTILE)


@pytest.fixture(scope="module")
def ground(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """One environment for all scripts, so that each is also run behind what others have done."""
    way: str = request.param
    backend = docker if way.startswith("docker") else local
    work: Path = tmp_path_factory.mktemp("work")
    with backend(work) as subject, subject.make() as env:
        yield Ground(env, way)  # type: ignore[arg-type]


@pytest.mark.parametrize(("ground", "name"), ROWS, ids=[f"{way}-{name}" for way, name in ROWS], indirect=["ground"])
def test_behind_any_hostile_script_the_next_is_right_and_nothing_is_left(ground: Ground, name: str, nap: str) -> None:
    ground.check(name, nap)
