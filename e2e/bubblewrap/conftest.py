from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from targets.engines import require_bubblewrap

from environments import BaseEnvironment, create_environment

MakeSandbox = Callable[..., BaseEnvironment]


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Set $HOME to a directory with a project and secrets."""
    folder = tmp_path / "home"
    for name in (".ssh/id_ed25519", ".aws/credentials", ".config/gcloud/key", ".hermes/config.yaml", "other/notes"):
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text("{}")
    (folder / ".netrc").write_text("{}")
    (folder / "project").mkdir()
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.delenv("HERMES_HOME", raising=False)
    return folder


@pytest.fixture
def make_sandbox(home: Path) -> Iterator[MakeSandbox]:
    """Make make_sandbox environments in the project of `home`; clean them up at the end."""
    require_bubblewrap()
    made: list[BaseEnvironment] = []

    def make(**settings: object) -> BaseEnvironment:
        made.append(create_environment("bubblewrap", **{"cwd": str(home / "project"), **settings}))
        return made[-1]

    yield make
    for environment in made:
        environment.cleanup()


@pytest.fixture
def env(make_sandbox: MakeSandbox) -> BaseEnvironment:
    return make_sandbox()
