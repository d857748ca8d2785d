"""What `-v` and `-vv` show on standard error, before the subcommand and behind it."""

from __future__ import annotations

import io
import logging

import pytest
from targets.engines import PYTHON_IMAGE, require_docker

DOCKER = ["-b", "docker", "--set", f"image={PYTHON_IMAGE}"]
ABSENT = ["-b", "docker", "--set", "image=hermes-test-absent:none"]


@pytest.fixture(autouse=True)
def engine() -> None:
    require_docker().close()


def test_it_stands_before_the_subcommand_or_behind_it(hermes_env) -> None:
    for words in (["-v", "exec", *DOCKER, "-n", "true"], ["exec", "--verbose", *DOCKER, "-n", "true"]):
        done = hermes_env(*words)
        assert done.returncode == 0
        assert "hermes-env: connecting to the engine at" in done.stderr
        assert "hermes-env: started in" in done.stderr


@pytest.mark.parametrize("words", [["-vv", "exec"], ["exec", "-vv"], ["-v", "exec", "-v"]], ids=" ".join)
def test_two_show_the_log_of_this_package(hermes_env, words) -> None:
    done = hermes_env(*words, *ABSENT, "-n", "true")
    assert done.returncode == 125
    assert " INFO environments.docker.image: pulling image hermes-test-absent:none" in done.stderr


def test_the_log_tells_of_shells_and_of_the_clean_up(hermes_env) -> None:
    done = hermes_env("-vv", "exec", *DOCKER, "-n", "echo", "a secret command")
    assert (done.stdout, done.returncode) == ("a secret command\n", 0)
    assert " DEBUG environments.shell.opening: shell bash, process " in done.stderr
    assert " DEBUG environments.shell.lifecycle: backend 'docker': cleaned up" in done.stderr
    assert "a secret command" not in done.stderr


def test_a_trial_of_the_doctor_tells_its_steps(hermes_env) -> None:
    done = hermes_env("doctor", "-v", "-b", "docker", TERMINAL_DOCKER_IMAGE=PYTHON_IMAGE)
    assert done.returncode == 0
    assert "hermes-env: started in" in done.stderr


def test_one_shows_no_log(hermes_env) -> None:
    done = hermes_env("exec", "-v", *ABSENT, "-n", "true")
    assert "pulling image hermes-test-absent:none" in done.stderr
    assert " INFO " not in done.stderr


def test_the_log_holds_no_secret_and_no_control_of_a_terminal() -> None:

    from hermes_env.debug_log import log_to_stderr

    logger = logging.getLogger("environments.of_somebody_else")  # which takes out nothing itself
    level = logging.getLogger("environments").level
    with pytest.MonkeyPatch.context() as patch:
        shown = io.StringIO()
        patch.setattr("sys.stderr", shown)
        patch.setenv("MY_API_KEY", "very-secret-value")
        log_to_stderr()
        log_to_stderr()
        try:
            logger.debug("the key is %s\x1b]0;title\x07", "very-secret-value")
        finally:
            for name in ("environments", "rpc", "hermes_tools", "code_execution", "hermes_env"):
                ours = logging.getLogger(name)
                ours.setLevel(level)
                ours.handlers.pop()
    (line,) = shown.getvalue().splitlines()
    assert "DEBUG environments.of_somebody_else: the key is" in line
    assert "very-secret" not in line and "\x1b" not in line and "title" not in line
