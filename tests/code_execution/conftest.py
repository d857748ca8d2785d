from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from targets.ready_python import have_each_script_wait_for_one

import code_execution.execute
from code_execution.settings import CodeExecutionSettings, load_code_execution_settings
from environments import BaseEnvironment, create_environment


@pytest.fixture(autouse=True)
def _no_settings_of_the_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "home"))


@pytest.fixture(autouse=True, params=["warm", "cold"])
def python_start(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Have each script forked from a Python that is ready, where that can be had, or have none forked."""
    if request.param == "cold":

        def settings() -> CodeExecutionSettings:
            return replace(load_code_execution_settings(), warm="off")

        monkeypatch.setattr(code_execution.execute, "load_code_execution_settings", settings)
    else:
        have_each_script_wait_for_one(monkeypatch)
    return str(request.param)


@pytest.fixture
def env(tmp_path: Path) -> Iterator[BaseEnvironment]:
    work = tmp_path / "work"
    work.mkdir()
    with create_environment("local", cwd=str(work)) as environment:
        yield environment


@pytest.fixture(params=["socket", "relay", "file"])
def transport(request: pytest.FixtureRequest) -> str:
    return str(request.param)
