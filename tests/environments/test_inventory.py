"""Inventory of targets: environments of this machine, failed backends, and removal."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from targets import file_backend
from targets.processes import processes_with

from environments import BaseEnvironment, MissingExtraError, TerminalError, create_environment
from environments.inventory import take_inventory
from environments.local import LocalEnvironment
from environments.registry import backend_class


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    return tmp_path


def test_an_environment_of_this_machine_is_found_and_its_processes_are_ended_by_force(nap: str) -> None:
    with create_environment("local", sandbox="none") as env:
        env.internal.execute("cat", stdin="x" * 200_000)  # large input is written to a file
        process = env.start(f"sleep {nap}")
        assert isinstance(env, LocalEnvironment)
        (found,) = [each for each in LocalEnvironment.list_targets() if each.name == env.id]
        assert (found.kind, found.id, found.state) == ("environment", env.id[-8:], "running")
        assert (found.use, found.pid) == ("live", os.getpid())
        assert found.created is not None and abs(time.time() - found.created) < 600
        assert found.size
        with pytest.raises(TerminalError, match=f"environment {found.id} is not removed"):
            found.remove(False)
        assert processes_with(nap)
        found.remove(True)
        assert not processes_with(nap)
        assert process.wait(60) != 0
        assert env.id not in [each.name for each in LocalEnvironment.list_targets()]


_OF_CLOUDS = """
import sys
from environments.inventory import take_inventory
from hermes_env.cli.doctor import probe_backend
print([name for name in take_inventory().failed if name in ("modal", "daytona")])
for backend in ("modal", "daytona"):
    finding = probe_backend(backend)
    print(finding.state, finding.why, finding.what_to_do, *finding.versions, sep="; ")
print([name for name in sys.modules if name.partition(".")[0] in ("modal", "daytona", "daytona_sdk")])
"""


def test_the_client_of_a_service_without_credentials_is_not_imported(tmp_path: Path) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MODAL_", "DAYTONA_"))}
    own = {"MODAL_CONFIG_PATH": str(tmp_path / "none.toml"), "DOCKER_HOST": f"unix://{tmp_path}/no.sock"}
    got = subprocess.run([sys.executable, "-c", _OF_CLOUDS], env=kept | own, capture_output=True, text=True, check=True)
    assert got.stdout.splitlines() == [
        "[]",
        "not found; has no credentials; "
        "set MODAL_TOKEN_ID and MODAL_TOKEN_SECRET, or run `modal setup`, which writes ~/.modal.toml; modal",
        "not found; has no credentials; set DAYTONA_API_KEY, or DAYTONA_JWT_TOKEN and DAYTONA_ORGANIZATION_ID; daytona",
        "[]",
    ]


def _without_modal(name: str) -> type[BaseEnvironment]:
    if name == "modal":
        raise MissingExtraError("install it")
    return backend_class(name)


def test_a_failing_backend_does_not_hide_the_others(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no.sock")
    monkeypatch.setenv("TERMINAL_ENV", "no-such-backend")
    with create_environment("local") as env:
        env.execute("true")
        inventory = take_inventory()
    assert [name for name, target in inventory.found if target.pid == os.getpid()].count("local") >= 1
    assert "no.sock" in inventory.failed["docker"]
    assert "no-such-backend" in inventory.failed["the configured backend"]


def test_a_missing_client_library_is_a_failure_only_of_a_named_backend(monkeypatch) -> None:
    monkeypatch.setattr("environments.inventory.backend_class", _without_modal)
    assert "modal" not in take_inventory().failed
    assert "modal" in take_inventory(["modal"]).failed


def test_backends_still_being_listed_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "targets").mkdir()
    monkeypatch.setenv(file_backend.FOLDER, str(tmp_path / "targets"))
    file_backend.TargetFiles(tmp_path / "targets").put("aaaa")
    reported: list[list[str]] = []
    inventory = take_inventory([file_backend.NAME, "local"], on_look=lambda names: reported.append(list(names)))
    assert [target.id for name, target in inventory.found if name == file_backend.NAME] == ["aaaa"]
    assert (reported[0], reported[-1], len(reported)) == ([file_backend.NAME, "local"], [], 3)


def test_an_inventory_of_no_backends_is_empty() -> None:
    assert take_inventory([]).found == []
