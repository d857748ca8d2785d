"""Output of `-v` and `-vv` on standard error."""

from __future__ import annotations

from pathlib import Path

from targets.backends import ssh_server
from targets.command_line import CommandLine
from targets.engines import PYTHON_IMAGE

PRESENT = ("-b", "docker", "--set", f"image={PYTHON_IMAGE}", "-n", "echo", "ran")
ABSENT = ("-b", "docker", "--set", "image=hermes-test-absent:none", "-n", "true")


def test_v_reports_the_steps_of_a_start(hermes_env: CommandLine) -> None:
    quiet = hermes_env("exec", *PRESENT)
    assert (quiet.stdout, quiet.stderr, quiet.returncode) == ("ran\n", "", 0)
    done = hermes_env("exec", "-v", *PRESENT)
    assert (done.stdout, done.returncode) == ("ran\n", 0)
    assert "hermes-env: connecting to the engine at" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("hermes-env: started in")


def test_v_reports_a_pull_and_vv_shows_its_log_record(hermes_env: CommandLine) -> None:
    once = hermes_env("exec", "-v", *ABSENT)
    assert once.returncode == 125
    assert "pulling image hermes-test-absent:none" in once.stderr and " INFO " not in once.stderr
    twice = hermes_env("exec", "-vv", *ABSENT)
    assert " INFO environments.docker.image: pulling image hermes-test-absent:none" in twice.stderr


def test_the_key_of_a_new_ssh_host_is_reported_once(hermes_env: CommandLine, tmp_path: Path) -> None:
    with ssh_server(tmp_path) as server:
        words = ["-b", "ssh", *(f"--set={name}={value}" for name, value in server.settings.items()), "-n", "true"]
        first = hermes_env("exec", *words)
        assert (first.returncode, first.stdout) == (0, "")
        (line,) = first.stderr.splitlines()
        assert line.startswith("hermes-env: backend 'ssh': accepted the key of unknown host ")
        assert "SHA256:" in line and line.endswith(f"added to {server.known_hosts}")
        assert hermes_env("exec", *words).stderr == ""
