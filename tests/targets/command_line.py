from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from targets import shelf

CommandLine = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def variables(tmp_path: Path) -> dict[str, str]:
    """The variables of a user who has set nothing yet."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("TERMINAL_")}
    return {**ours, "HERMES_HOME": str(tmp_path / "home"), "NO_COLOR": "1"}


@pytest.fixture
def hermes_env(variables: dict[str, str], tmp_path: Path) -> CommandLine:
    """The real command, as a shell would run it."""

    def run(*words: str, stdin: str = "", folder: Path = tmp_path, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "hermes_env", *words],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            env={**variables, **more},
            cwd=folder,
            check=False,
        )

    return run


@pytest.fixture
def things(tmp_path: Path, variables: dict[str, str]) -> shelf.Things:
    """What lies on the shelf of a backend that somebody else might have."""
    folder = tmp_path / "shelf"
    folder.mkdir()
    variables[shelf.FOLDER] = str(folder)
    variables["PYTHONPATH"] = str(Path(shelf.__file__).parents[1])
    return shelf.Things(folder)


@pytest.fixture
def start_hermes_env(variables: dict[str, str], tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """The real command, to be signalled while it runs."""
    started: list[subprocess.Popen[str]] = []

    def start(*words: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "hermes_env", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=variables,
            cwd=tmp_path,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        with process:
            process.kill()
