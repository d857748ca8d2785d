from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from environments import BaseEnvironment, create_environment

Configure = Callable[[str], None]
Make = Callable[..., BaseEnvironment]


@pytest.fixture
def make(configure: Configure, tmp_path: Path) -> Iterator[Make]:
    """Make local environments in a directory of their own; clean them up at the end."""
    made: list[BaseEnvironment] = []
    work = tmp_path / "work"
    work.mkdir()

    def create(**options: object) -> BaseEnvironment:
        made.append(create_environment("local", cwd=str(work), **options))
        return made[-1]

    yield create
    for environment in made:
        environment.cleanup()
