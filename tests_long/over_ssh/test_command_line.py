"""Engines over SSH, by the command line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from targets.engines import PYTHON_IMAGE, require_docker, require_singularity
from targets.ssh_server import SSHServer


@pytest.fixture
def variables(server: SSHServer, tmp_path: Path) -> dict[str, str]:
    """Variables that select this machine's engines over SSH."""
    require_docker().close()
    ours = {name: value for name, value in os.environ.items() if not name.startswith("TERMINAL_")}
    over = {f"TERMINAL_{name.upper()}": str(value) for name, value in server.over.items()}
    images = {"TERMINAL_DOCKER_IMAGE": PYTHON_IMAGE, "TERMINAL_SINGULARITY_IMAGE": str(require_singularity().sandbox)}
    return {**ours, **over, **images, "HERMES_HOME": str(tmp_path), "NO_COLOR": "1"}


def hermes_env(variables: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "hermes_env", *words], capture_output=True, text=True, check=False, env=variables
    )


def test_a_command_runs_on_the_host(variables: dict[str, str], server: SSHServer) -> None:
    over = {name: variables.pop(f"TERMINAL_{name.upper()}") for name in server.over}
    assignments = [word for name, value in over.items() for word in ("--set", f"{name}={value}")]
    done = hermes_env(variables, "exec", "--backend", "docker", *assignments, "--", "echo inside; exit 3")
    assert (done.stdout, done.returncode) == ("inside\n", 3)


def test_doctor_tells_where_the_engines_are(variables: dict[str, str], server: SSHServer) -> None:
    done = hermes_env({**variables, "TERMINAL_ENV": "docker"}, "doctor")
    lines = {line.split()[0]: line for line in done.stdout.splitlines() if line.strip()}
    assert done.returncode == 0, done.stdout
    assert " works " in lines["docker"] and f"@127.0.0.1:{server.port}" in lines["docker"]
    assert " found, not tried " in lines["singularity"] and f"@127.0.0.1:{server.port}" in lines["singularity"]
    assert " works " in lines["local"]
    assert " found, not tried " in lines["ssh"]
