"""Fixtures of asynchronous tests. They run on asyncio, and with `targets.awaiting.on_both_loops` also on trio."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hermes_env.aio import AsyncEnvironment


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def _no_settings_of_the_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "home"))


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """The environment's first working directory."""
    work = tmp_path / "work"
    work.mkdir()
    return work


@pytest.fixture
async def env(anyio_backend: str, work: Path) -> AsyncIterator[AsyncEnvironment]:
    async with AsyncEnvironment("local", cwd=str(work)) as environment:
        yield environment
