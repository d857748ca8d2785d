from __future__ import annotations

import json
from pathlib import Path

from targets import file_backend

from hermes_env.cli.doctor import Finding


def line_of(output: str, backend: str) -> str:
    return next(line for line in output.splitlines() if line.startswith(f"{backend} "))


def test_each_backend_is_there_with_what_was_found_of_it(hermes_env, tmp_path: Path) -> None:
    done = hermes_env("doctor", DOCKER_HOST=f"unix://{tmp_path}/no.sock", TERMINAL_SSH_HOST="somewhere")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"settings  {tmp_path}/home/config.yaml (not there" in done.stdout
    for backend, state, said in (
        ("local", "works", "shell: "),
        ("ssh", "found, not tried", "@somewhere:22"),
        ("docker", "not found", "no.sock does not answer"),
        ("modal", "not found", "MODAL_TOKEN_ID"),
        ("daytona", "not found", "DAYTONA_API_KEY"),
    ):
        assert state in line_of(done.stdout, backend)
        assert said in line_of(done.stdout, backend)
    assert "          ssh could not be queried: " in done.stdout


def test_json_is_one_object_with_what_each_backend_has_and_what_is_left(hermes_env, tmp_path: Path) -> None:
    done = hermes_env("doctor", "--json", DOCKER_HOST=f"unix://{tmp_path}/no.sock")
    found = json.loads(done.stdout)
    assert (done.returncode, found["works"], found["backend"]) == (0, True, "local")
    assert found["settings"] == {"file": f"{tmp_path}/home/config.yaml", "exists": False}
    assert found["versions"].keys() == {"hermes-environments", "python"}
    of = {each["backend"]: each for each in found["backends"]}
    assert (of["local"]["state"], of["local"]["what_to_do"]) == ("works", None)
    assert of["local"]["leftovers"].keys() == {"live", "orphan", "free", "elsewhere"}
    assert of["docker"]["state"] == "not found" and of["docker"]["why"].endswith("(No such file or directory)")
    assert of["docker"]["what_to_do"] == "start it, or set DOCKER_HOST to one that runs"
    assert of["docker"]["versions"].keys() == {"docker"} and of["docker"]["leftovers"] is None
    assert of["ssh"] | {"versions": None} == {
        "backend": "ssh",
        "state": "not set up",
        "why": "needs a host",
        "what_to_do": "set TERMINAL_SSH_HOST, or give the argument host",
        "versions": None,
        "leftovers": None,
    }
    assert found["not_looked_at"] == {}


def test_what_is_left_is_counted_and_what_cannot_be_looked_at_is_named(hermes_env, target_files, monkeypatch) -> None:
    monkeypatch.setattr("hermes_env.cli.doctor.try_backend", lambda name, *_: Finding(name, "works", "a folder"))
    for number, use in enumerate(("orphan", "orphan", "live")):
        target_files.put(f"thing-{number}", use=use)
    monkeypatch.setattr("hermes_env.cli.doctor.backend_names", list)
    done = hermes_env("doctor", "-b", file_backend.NAME)
    assert done.returncode == 0
    assert done.stdout.endswith("\nleft      1 in use, 2 orphan; `hermes-env gc` removes orphans\n")
    (found,) = json.loads(hermes_env("doctor", "--json", "-b", file_backend.NAME).stdout)["backends"]
    assert found["leftovers"] == {"live": 1, "orphan": 2, "free": 0, "elsewhere": 0}
    target_files.put("broken")
    found = json.loads(hermes_env("doctor", "--json", "-b", file_backend.NAME).stdout)
    assert found["not_looked_at"] == {file_backend.NAME: "ValueError: the folder is broken"}
    assert found["backends"][0]["leftovers"] is None
    done = hermes_env("doctor", "-b", file_backend.NAME)
    assert done.returncode == 0
    assert f"          {file_backend.NAME} could not be queried: ValueError: the folder is broken\n" in done.stdout


def test_the_exit_code_is_1_when_the_configured_backend_is_not_ready(hermes_env, tmp_path: Path) -> None:
    done = hermes_env("doctor", TERMINAL_ENV="docker", DOCKER_HOST=f"unix://{tmp_path}/no.sock")
    assert done.returncode == 1
    assert "works" in line_of(done.stdout, "local")
    assert "failed" in line_of(done.stdout, "docker")


def test_a_backend_that_cannot_start_is_shown_with_its_reason(hermes_env, configure, tmp_path: Path) -> None:
    configure("terminal: {ssh_port: none}\n")
    done = hermes_env("doctor", "--cwd", str(tmp_path / "absent"), DOCKER_HOST=f"unix://{tmp_path}/no.sock")
    assert done.returncode == 1
    assert f"settings  {tmp_path}/home/config.yaml\n" in done.stdout
    assert "failed" in line_of(done.stdout, "local")
    assert "absent" in line_of(done.stdout, "local")
    assert "not set up" in line_of(done.stdout, "ssh")
    assert "terminal.ssh_port: it should be a whole number" in line_of(done.stdout, "ssh")


def test_a_wrong_setting_is_one_line_and_exit_code_2(hermes_env, configure, tmp_path: Path) -> None:
    configure("terminal: {timeout: soon}\n")
    done = hermes_env("doctor")
    assert (done.stdout, done.returncode) == ("", 2)
    assert f"{tmp_path}/home/config.yaml, terminal.timeout: it should be a number" in done.stderr


def test_a_class_that_is_no_whole_backend_is_shown_with_its_reason(hermes_env) -> None:
    done = hermes_env("doctor", "-b", "environments.base:BaseEnvironment")
    line = line_of(done.stdout, "environments.base:BaseEnvironment")
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "failed" in line, line
