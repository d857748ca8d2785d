from __future__ import annotations

from pathlib import Path


def line_of(output: str, backend: str) -> str:
    return next(line for line in output.splitlines() if line.startswith(f"{backend} "))


def test_each_backend_is_there_with_what_was_found_of_it(hermes_env, tmp_path: Path) -> None:
    done = hermes_env("doctor", DOCKER_HOST=f"unix://{tmp_path}/no.sock", TERMINAL_SSH_HOST="somewhere")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"settings  {tmp_path}/home/config.yaml (not there" in done.stdout
    for backend, state, said in (
        ("local", "ready", "shell: "),
        ("ssh", "found", "@somewhere:22"),
        ("docker", "missing", "no.sock does not answer"),
        ("modal", "missing", "MODAL_TOKEN_ID"),
        ("daytona", "missing", "DAYTONA_API_KEY"),
    ):
        assert state in line_of(done.stdout, backend)
        assert said in line_of(done.stdout, backend)


def test_the_exit_code_is_1_when_the_configured_backend_is_not_ready(hermes_env, tmp_path: Path) -> None:
    done = hermes_env("doctor", TERMINAL_ENV="docker", DOCKER_HOST=f"unix://{tmp_path}/no.sock")
    assert done.returncode == 1
    assert "ready" in line_of(done.stdout, "local")
    assert "failed" in line_of(done.stdout, "docker")


def test_a_backend_that_cannot_start_is_shown_with_its_reason(hermes_env, configure, tmp_path: Path) -> None:
    configure("terminal: {ssh_port: none}\n")
    done = hermes_env("doctor", "--cwd", str(tmp_path / "absent"), DOCKER_HOST=f"unix://{tmp_path}/no.sock")
    assert done.returncode == 1
    assert f"settings  {tmp_path}/home/config.yaml\n" in done.stdout
    assert "failed" in line_of(done.stdout, "local")
    assert "absent" in line_of(done.stdout, "local")
    assert "unset" in line_of(done.stdout, "ssh")
    assert "terminal.ssh_port: it should be a whole number" in line_of(done.stdout, "ssh")


def test_a_wrong_setting_is_one_line_and_exit_code_125(hermes_env, configure, tmp_path: Path) -> None:
    configure("terminal: {timeout: soon}\n")
    done = hermes_env("doctor")
    assert (done.stdout, done.returncode) == ("", 125)
    assert f"{tmp_path}/home/config.yaml, terminal.timeout: it should be a number" in done.stderr
