"""Selects the search engine: ripgrep, or grep for a target without ripgrep."""

from __future__ import annotations

import contextlib
import os
import shutil
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from hermes_tools.search.engines import Engine

ENGINES: tuple[Engine, ...] = get_args(Engine)


@contextlib.contextmanager
def with_engine(engine: Engine, folder: Path) -> Iterator[None]:
    """Put ripgrep into PATH, or take it out, for local environments.

    Args:
        engine: The engine to find.
        folder: An empty directory for links to programs.
    """
    with pytest.MonkeyPatch.context() as patch:
        if engine == "ripgrep":
            folders = [sysconfig.get_path("scripts"), *os.environ["PATH"].split(":")]
            found = shutil.which("rg", path=":".join(folders))
            if found is None:
                raise FileNotFoundError("these tests need ripgrep: install the development dependencies")
            (folder / "rg").symlink_to(found)
            patch.setenv("PATH", str(folder), prepend=":")
        else:
            folders = os.environ["PATH"].split(":")
            patch.setenv("PATH", ":".join(each for each in folders if not Path(each, "rg").exists()))
        yield
