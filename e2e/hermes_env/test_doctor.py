"""`hermes-env doctor`, where engines answer."""

from __future__ import annotations

from pathlib import Path

import pytest
from targets.command_line import CommandLine
from targets.engines import PYTHON_IMAGE, require_bubblewrap


def line_of(output: str, backend: str) -> str:
    return next(line for line in output.splitlines() if line.startswith(f"{backend} "))


def test_a_trial_reports_its_steps(hermes_env: CommandLine) -> None:
    done = hermes_env("doctor", "-v", "-b", "docker", TERMINAL_DOCKER_IMAGE=PYTHON_IMAGE)
    assert done.returncode == 0
    assert "hermes-env: started in" in done.stderr


def test_doctor_checks_for_bubblewrap_and_tries_a_configured_sandbox(hermes_env: CommandLine, tmp_path: Path) -> None:
    require_bubblewrap()
    assert "bubblewrap " in line_of(hermes_env("doctor").stdout, "bubblewrap")
    project = tmp_path / "project"
    project.mkdir()
    done = hermes_env("doctor", "--cwd", str(project), TERMINAL_LOCAL_SANDBOX="bubblewrap")
    assert done.returncode == 0
    assert "works" in line_of(done.stdout, "local")
    assert "works" in line_of(done.stdout, "bubblewrap")
    done = hermes_env("doctor", TERMINAL_LOCAL_SANDBOX="bubblewrap", PATH="/none", TERMINAL_CWD=str(project))
    assert done.returncode == 1
    assert "failed" in line_of(done.stdout, "bubblewrap")
    assert "install the package bubblewrap" in line_of(done.stdout, "bubblewrap")


@pytest.mark.parametrize("options", [[], ["--json"]], ids=["text", "json"])
def test_doctor_shows_no_value_of_a_key(hermes_env: CommandLine, options: list[str]) -> None:
    given = {
        "OPENAI_API_KEY": "shown-0-key-of-a-model",
        "MODAL_TOKEN_SECRET": "shown-1-secret-of-modal",
        "BRAVE_SEARCH_API_KEY": "shown-2-key-of-a-search",
        "TERMINAL_SSH_HOST": "127.0.0.1",
        "TERMINAL_SSH_PORT": "1",
        "TERMINAL_SSH_PASSWORD": "shown-3-password-of-a-host",
        "DOCKER_HOST": "tcp://user:shown-4-password-of-an-engine@127.0.0.1:1",
    }
    done = hermes_env("doctor", "-b", "ssh", "-v", *options, **given)
    assert done.returncode == 1
    assert "nothing listens there" in done.stdout
    assert "tcp://user:[REDACTED:" in done.stdout
    assert "shown-" not in done.stdout + done.stderr
    refused = hermes_env("exec", "-b", "docker", "--", "true", **given)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "tcp://user:[REDACTED:" in refused.stderr
    assert "shown-" not in refused.stderr
