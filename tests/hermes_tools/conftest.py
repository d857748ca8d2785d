from __future__ import annotations

import shutil
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

from environments import create_environment
from environments.base import BaseEnvironment


@pytest.fixture
def env(tmp_path: Path) -> Iterator[BaseEnvironment]:
    with create_environment("local", cwd=str(tmp_path)) as environment:
        yield environment


@pytest.fixture(scope="session")
def ripgrep() -> Path:
    """The directory of an `rg`: of the development dependency, or else of the machine."""
    for place in (sysconfig.get_path("scripts"), None):
        if found := shutil.which("rg", path=place):
            return Path(found).parent
    raise FileNotFoundError("these tests compare with ripgrep: install the development dependencies")
