"""Uses of an environment by an agent of mini-swe-agent, on our plug and on the agent's own environments."""

from __future__ import annotations

import platform
import secrets
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from minisweagent.environments import get_environment
from minisweagent.exceptions import Submitted
from place import PLACE

PLUG = "hermes_env.plugs.minisweagent.HermesEnvironment"
Make = Callable[..., Any]
HERE = pytest.mark.skipif("local" not in (*PLACE.tags, PLACE.own), reason="it runs on this machine")


@pytest.fixture(scope="module")
def make() -> Iterator[Make]:
    """Make an environment as mini-swe-agent does, from the `environment:` section of its configuration."""
    made = []

    def make(**config: object) -> Any:
        settings = {key: value for key, value in PLACE.settings.items() if value is not None}
        made.append(get_environment({"environment_class": PLACE.own or PLUG, **settings, **config}))
        return made[-1]

    yield make
    for env in made:
        getattr(env, "cleanup", lambda: None)()


@pytest.fixture(scope="module")
def env(make: Make) -> Any:
    return make(env={"GREETING": "hi there", "BOTH": "configured"}, forward_env=["FORWARDED", "BOTH", "NOT_SET"])


def run(env: Any, command: str, **arguments: object) -> tuple[str, int]:
    result = env.execute({"command": command}, **arguments)
    assert result["exception_info"] == ""
    return result["output"], result["returncode"]


def test_a_commands_output_and_exit_code_are_returned(env: Any) -> None:
    assert run(env, "echo one; echo two >&2; exit 42") == ("one\ntwo\n", 42)


def test_a_program_that_there_is_none_of_is_a_failure(env: Any) -> None:
    output, code = run(env, "no_such_program_12345")
    assert code == 127 and "no_such_program_12345" in output


def test_the_shell_is_one(env: Any) -> None:
    assert run(env, "echo $(echo nested) | tr a-z A-Z && printf '%s\\n' a b | wc -l") == ("NESTED\n2\n", 0)


def test_variables_are_there(env: Any) -> None:
    assert run(env, 'echo "$GREETING [$NOT_SET]"') == ("hi there []\n", 0)


def test_variables_of_this_process_are_forwarded(env: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORWARDED", "from here")
    monkeypatch.setenv("BOTH", "forwarded")
    assert run(env, 'echo "$FORWARDED, $BOTH"') == ("from here, configured\n", 0)


@HERE
def test_on_this_machine_its_variables_are_there(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OF_THIS_PROCESS", "here")
    assert run(make(), "echo $OF_THIS_PROCESS") == ("here\n", 0)


@pytest.mark.skipif("local" not in PLACE.tags, reason="it is about the plug on this machine")
def test_prompts_may_name_variables_of_this_machine_and_no_keys(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OF_THIS_PROCESS", "here\nand there")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-a-service")
    said = make().get_template_vars()
    assert said["OF_THIS_PROCESS"] == "here\nand there" and "OPENAI_API_KEY" not in said


@HERE
def test_on_this_machine_commands_run_in_this_processs_directory(make: Make) -> None:
    assert run(make(), "pwd") == (f"{Path.cwd()}\n", 0)


def test_commands_run_in_the_configured_directory(make: Make) -> None:
    env = make(cwd="/usr")
    assert run(env, "pwd") == ("/usr\n", 0)
    assert run(env, "pwd", cwd="/tmp") == ("/tmp\n", 0)


@pytest.mark.skipif("docker" not in (*PLACE.tags, PLACE.own), reason="nothing makes it there")
def test_a_container_is_given_the_configured_directory(make: Make) -> None:
    assert run(make(cwd="/made/for/it"), "pwd") == ("/made/for/it\n", 0)


def test_commands_share_files_and_nothing_else(env: Any) -> None:
    run(env, "cd /usr; export LEFT=behind; echo kept > /tmp/minisweagent_test")
    assert run(env, 'cat /tmp/minisweagent_test; rm /tmp/minisweagent_test; echo "[$LEFT]"; pwd')[0].startswith(
        "kept\n[]\n"
    )
    assert run(env, "pwd")[0] != "/usr\n"


def test_a_command_that_takes_too_long_is_ended_with_its_children(env: Any) -> None:
    nap = f"31.{secrets.randbelow(10**9):09}"
    result = env.execute({"command": f"echo begun; sleep {nap} & sleep {nap}"}, timeout=2)
    assert result["returncode"] == -1
    assert "timed out" in result["exception_info"]
    assert result["extra"]["exception_type"] == "TimeoutExpired"
    assert run(env, f"cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -c '[s]leep {nap}'")[0] == "0\n"


def test_the_end_of_a_task_is_a_submission(env: Any) -> None:
    with pytest.raises(Submitted) as caught:
        env.execute({"command": "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; echo the; echo patch"})
    (message,) = caught.value.messages
    assert message["content"] == "the\npatch\n"
    assert message["extra"] == {"exit_status": "Submitted", "submission": "the\npatch\n"}


def test_a_command_that_failed_submits_nothing(env: Any) -> None:
    assert run(env, "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; exit 3")[1] == 3


def test_prompts_may_name_the_configuration_and_the_system(env: Any) -> None:
    said = env.get_template_vars(task="x")
    assert said["task"] == "x" and said["timeout"] == 30
    assert said["system"] == platform.system() and said["machine"] == platform.machine()


def test_a_trajectory_says_which_environment_it_was(env: Any) -> None:
    kept = env.serialize()["info"]["config"]
    assert kept["environment"]["env"]["GREETING"] == "hi there"
    assert PLACE.own or kept["environment_type"] == PLUG


@pytest.mark.skipif("docker" not in (*PLACE.tags, PLACE.own), reason="it has no container_timeout")
def test_a_target_lives_no_longer_than_it_may(make: Make) -> None:
    env = make(container_timeout="2s")
    assert env.execute({"command": "hostname; sleep 30"})["returncode"] not in (0, 124)
    # The file is removed while the command's end is reported: gone now, or soon.
    deadline = time.monotonic() + 60
    while (
        subprocess.run(["docker", "exec", env.container_id, "true"], capture_output=True, check=False).returncode == 0
    ):
        assert time.monotonic() < deadline
        time.sleep(0.1)
