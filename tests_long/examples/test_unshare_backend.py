"""The example backend of docs/adding-a-backend.md, through the same checks as the others."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from code_execution import execute_code
from environments import BaseEnvironment, SettingsError, create_environment, load_settings, registry
from environments.conformance import Subject, run_checks

EXAMPLES = Path(__file__).parents[2] / "examples"
# The entry point that a distribution would have in its pyproject.toml.
ENTRY_POINT = EntryPoint("unshare", "unshare_backend:UnshareEnvironment", "hermes_environments.backends")


def end_namespaces(env: BaseEnvironment) -> None:
    """Kill the first process of the namespaces, as the kernel does when memory runs out."""
    os.kill(env._pid, signal.SIGKILL)  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def installed() -> Iterator[None]:
    """The backend as if installed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(EXAMPLES)
        patch.setattr(registry, "_entry_points", lambda: {"unshare": ENTRY_POINT})
        yield
    sys.modules.pop("unshare_backend", None)


@pytest.fixture(scope="module")
def subject(installed: None) -> Iterator[Subject]:
    def make(**settings: object) -> BaseEnvironment:
        return create_environment("unshare", **settings)

    refused = {"container_memory": 512, "container_cpu": 1, "container_disk": 512}
    made = Subject(make, lose_target=end_namespaces, refused_settings=refused)
    yield made
    made.close()


@pytest.mark.timeout(900)
def test_the_contract_holds(subject: Subject) -> None:
    assert run_checks(subject) == {}


def test_a_script_calls_tools_from_inside(installed: None) -> None:
    with create_environment("unshare") as env:
        result = execute_code("from hermes_tools import terminal; print(terminal('echo $$')['output'])", env=env)
    assert result.status == "success", result.output
    assert int(result.output) < 100, "the session's shell is not in a process table of its own"


def test_tmp_is_private_and_has_the_configured_size(installed: None, tmp_path: Path) -> None:
    with create_environment("unshare", tmp_size="8m") as env:
        env.write_bytes("/tmp/inside", b"x")
        full = env.execute("head -c 16m /dev/zero >/tmp/too-much")
        assert full.exit_code != 0
        assert "No space left" in full.output
    assert not Path("/tmp/inside").exists()


def test_settings_come_from_the_usual_sources(installed: None, monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_settings("unshare").unshare.tmp_size == "50%"
    monkeypatch.setenv("TERMINAL_UNSHARE_TMP_SIZE", "8m")
    assert load_settings("unshare").unshare.tmp_size == "8m"
    assert load_settings("unshare_backend:UnshareEnvironment").unshare.tmp_size == "8m"
    with pytest.raises(SettingsError, match=r"no such setting of backend 'unshare' \(did you mean 'tmp_size'\?\)"):
        create_environment("unshare", tmp_sise="8m")
