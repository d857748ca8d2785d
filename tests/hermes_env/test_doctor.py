from __future__ import annotations

from pathlib import Path


def line_of(output: str, backend: str) -> str:
    return next(line for line in output.splitlines() if line.startswith(f"{backend} "))


def test_this_machine_is_ready(hermes_env) -> None:
    done = hermes_env("doctor")
    assert done.returncode == 0
    assert "ready" in line_of(done.stdout, "local")
    assert "shell: " in line_of(done.stdout, "local")


def test_the_exit_code_is_1_when_the_configured_backend_is_not_ready(hermes_env) -> None:
    done = hermes_env("doctor", "--backend", "daytona")
    assert done.returncode == 1
    assert "ready" in line_of(done.stdout, "local")
    assert hermes_env("doctor", TERMINAL_ENV="daytona").returncode == 1


def test_a_backend_that_cannot_start_is_shown_with_its_reason(hermes_env, tmp_path: Path) -> None:
    done = hermes_env("doctor", "--cwd", str(tmp_path / "absent"))
    assert done.returncode == 1
    assert "failed" in line_of(done.stdout, "local")
    assert "absent" in line_of(done.stdout, "local")


def test_the_settings_file_is_named(hermes_env, tmp_path: Path) -> None:
    config = tmp_path / "home" / "config.yaml"
    assert f"{config} (not there" in hermes_env("doctor").stdout
    config.parent.mkdir()
    config.write_text("terminal: {timeout: 9}\n")
    assert f"settings  {config}\n" in hermes_env("doctor").stdout


def test_a_wrong_setting_is_one_line_and_exit_code_2(hermes_env, tmp_path: Path) -> None:
    config = tmp_path / "home" / "config.yaml"
    config.parent.mkdir()
    config.write_text("terminal: {timeout: soon}\n")
    done = hermes_env("doctor")
    assert (done.stdout, done.returncode) == ("", 2)
    assert f"{config}, terminal.timeout: it should be a valid number" in done.stderr
