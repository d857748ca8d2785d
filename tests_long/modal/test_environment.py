"""Modal through its own client, against a stand-in that runs commands on this machine."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from standins.control import StandIn
from standins.in_process import use_and_be_killed
from targets.processes import having

from code_execution import execute_code
from environments import EnvironmentStartError, SettingsError, create_environment
from environments.claim import Claim
from environments.garbage import collect_garbage
from environments.modal import ModalEnvironment
from environments.modal.kept import key_of


@pytest.fixture
def killed(service: StandIn, nap: str) -> Iterator[Callable[[str, str], None]]:
    """Uses a sandbox in a process of its own, which is then killed."""
    yield lambda task, how: use_and_be_killed("modal", task, how, nap)
    collect_garbage()


def running(service: StandIn, task: str = "") -> list[dict]:
    """The sandboxes that run, as they were asked for."""
    found = service.seen["sandboxes"]
    assert isinstance(found, list)
    return [box for box in found if box["running"] and task in ("", box["tags"]["hermes-task"])]


def test_importing_environments_imports_no_client_library():
    code = "import sys, environments; environments.create_environment('local'); print('modal' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_without_credentials_one_sentence_says_what_to_set(tmp_path: Path):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MODAL_")}
    code = "from environments import create_environment; create_environment('modal').execute('true')"
    got = subprocess.run(
        [sys.executable, "-c", code],
        env={**kept, "MODAL_CONFIG_PATH": str(tmp_path / "none.toml")},
        capture_output=True,
        text=True,
        check=False,
    )
    last = got.stderr.strip().splitlines()[-1]
    assert last.endswith(
        "backend 'modal' has no credentials: set MODAL_TOKEN_ID and MODAL_TOKEN_SECRET, or run `modal setup`, which "
        "writes ~/.modal.toml"
    )


def test_what_the_settings_ask_for_reaches_the_service(service, make):
    env = make(
        task_id="asked",
        container_cpu=1.5,
        container_memory=256,
        timeout=60,
        modal_sandbox_timeout=7200,
        modal_idle_timeout=600,
        modal_region=("eu-west-1",),
        modal_volumes=("models:/models:ro",),
        modal_network=False,
        modal_image="debian:12",
        modal_dockerfile_commands=("RUN apt-get update",),
    )
    env.execute("true")
    (box,) = running(service, "asked")
    assert (
        box["resources"] | {"memoryMb": 256, "memoryMbMax": 256, "milliCpu": 1500, "milliCpuMax": 1500}
        == box["resources"]
    )
    assert (box["timeoutSecs"], box["idleTimeoutSecs"]) == (7200, 600)
    assert box["schedulerPlacement"]["regions"] == ["eu-west-1"]
    assert box["networkAccess"]["networkAccessType"] == "BLOCKED"
    (volume,) = box["volumeMounts"]
    assert (volume["mountPath"], volume["readOnly"]) == ("/models", True)
    layers = [line for layer in service.seen["images"] for line in layer["dockerfileCommands"]]
    assert "FROM debian:12" in layers
    assert "RUN apt-get update" in layers


def test_a_gpu_is_reserved(service, make):
    env = make(task_id="gpu", modal_gpu="T4")
    assert env.execute("echo works").output == "works\n"
    (box,) = running(service, "gpu")
    assert box["resources"]["gpuConfig"]["gpuType"] == "T4"


def test_variables_reach_commands_and_are_not_in_the_sandboxs_description(service, make, monkeypatch):
    monkeypatch.setenv("MY_KEY", "a-secret-value")
    env = make(task_id="variables", modal_env={"PLAIN": "here"}, modal_forward_env=("MY_KEY", "NOT_SET"))
    look = "echo $PLAIN $MY_KEY ${NOT_SET-unset}"
    assert env.execute(look).output == "here a-secret-value unset\n"
    assert env.execute_oneshot(look).output == "here a-secret-value unset\n"
    assert "a-secret-value" not in str(service.seen)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"modal_volumes": ("models",)}, "modal_volumes"),
        ({"modal_volumes": ("models:relative",)}, "modal_volumes"),
        ({"modal_env": {"no name": "x"}}, "modal_env"),
        ({"modal_sandbox_timeout": 86_401}, "modal_sandbox_timeout"),
    ],
)
def test_a_setting_that_is_not_understood_is_named(settings, named):
    with pytest.raises(SettingsError, match=named):
        create_environment("modal", **settings)


def test_a_terminal_is_resized(make):
    env = make()
    process = env.start("stty size; read line; stty size", pty=True, rows=30, columns=90)
    deadline = time.monotonic() + 30
    seen = ""
    while "30 90" not in seen and time.monotonic() < deadline:
        seen += process.read()
        time.sleep(0.02)
    process.resize(40, 100)
    process.write("go\n")
    assert process.wait(30) == 0
    assert "40 100" in process.read()


@pytest.mark.parametrize("transport", ["file", "relay"])
def test_a_script_calls_tools(make, transport):
    def double(number: int) -> int:
        """Double a number."""
        return 2 * number

    code = "from hermes_tools import double\nprint([double(n) for n in range(3)])"
    result = execute_code(code, env=make(), tools={"double": double}, transport=transport)
    assert (result.status, result.output, result.tool_calls_made) == ("success", "[0, 2, 4]\n", 3)


def test_the_sandbox_is_terminated_in_the_end(service, make):
    env = make(task_id="ended")
    env.execute("true")
    env.cleanup()
    assert running(service, "ended") == []


def test_kept_files_are_there_again_in_the_next_sandbox(service, make):
    env = make(task_id="kept", container_persistent=True)
    env.execute("echo kept >~/file")
    env.cleanup()
    assert running(service, "kept") == []
    again = make(task_id="kept", container_persistent=True)
    assert again.execute("cat ~/file; ls -d ~/hermes-* 2>/dev/null | wc -l").output == "kept\n0\n"
    other = make(task_id="other", container_persistent=True)
    assert other.execute("cat ~/file").exit_code == 1


def test_kept_files_that_the_service_has_lost_are_no_obstacle(make, home, caplog):
    env = make(task_id="lost", container_persistent=True)
    env.execute("echo kept >~/file")
    env.cleanup()
    (snapshot,) = (home / "modal-snapshots").iterdir()
    snapshot.write_text("im-snapshot-9999\n")
    again = make(task_id="lost", container_persistent=True)
    assert again.execute("cat ~/file 2>/dev/null; echo works").output == "works\n"
    assert "the kept files of task lost are gone" in caplog.text


def test_environments_of_one_process_share_a_sandbox_with_kept_files(service, make, nap):
    first, second = (make(task_id="shared", container_persistent=True) for _ in range(2))
    first.execute("echo mine >~/file; export WHO=first")
    assert second.execute("cat ~/file; echo $WHO").output == "mine\n\n"
    assert len(running(service, "shared")) == 1
    process = second.start(f"sleep {nap}")
    first.cleanup()
    assert len(running(service, "shared")) == 1
    assert process.running
    second.execute("echo more >>~/file")
    second.cleanup()
    assert running(service, "shared") == []
    assert make(task_id="shared", container_persistent=True).execute("cat ~/file").output == "mine\nmore\n"


def test_kept_files_are_used_by_one_process_at_a_time(make):
    env = make(task_id="theirs", container_persistent=True)
    claim = Claim(f"modal-{key_of(env.settings)}")  # what another process would hold
    assert claim.take()
    with pytest.raises(EnvironmentStartError, match="set another task_id"):
        env.execute("true")
    claim.release()
    assert env.execute("echo here").output == "here\n"


@pytest.mark.alone("garbage")
def test_the_sandbox_of_a_killed_process_is_taken_up_by_the_next_of_the_task(service, make, killed, nap):
    killed("taken", "kept")
    (before,) = running(service, "taken")
    assert len(having(nap)) == 1
    env = make(task_id="taken", container_persistent=True)
    assert env.execute("cat ~/file").output == "mine\n"
    assert having(nap) == []
    (after,) = running(service, "taken")
    assert before["id"] == after["id"]
    assert before["tags"]["hermes-owner"] != after["tags"]["hermes-owner"]


@pytest.mark.alone("garbage")
def test_the_sandbox_of_a_killed_process_is_collected(service, killed):
    killed("orphan", "ended")
    assert len(running(service, "orphan")) == 1
    (found_by_another,) = [each for each in ModalEnvironment.find_orphans() if "orphan" in each.description]
    collected = [line for line in collect_garbage() if "orphan" in line]
    assert len(collected) == 1
    assert "terminated sandbox" in collected[0]
    assert running(service, "orphan") == []
    found_by_another.remove()
    assert not [line for line in collect_garbage() if "orphan" in line]


@pytest.mark.alone("garbage")
def test_collecting_keeps_the_files_that_are_to_be_kept(service, make, killed):
    killed("collected", "kept")
    assert len([line for line in collect_garbage() if "collected" in line]) == 1
    assert running(service, "collected") == []
    assert make(task_id="collected", container_persistent=True).execute("cat ~/file").output == "mine\n"


@pytest.mark.alone("garbage")
def test_the_sandbox_of_a_live_process_is_not_collected(service, make):
    make(task_id="alive").execute("true")
    assert not [line for line in collect_garbage() if "alive" in line]
    assert len(running(service, "alive")) == 1
