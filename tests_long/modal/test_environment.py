"""Modal through the service's own client, on the full stand-in."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from standins.control import StandIn
from standins.in_process import threads_of_streams, use_and_be_killed, use_and_leave
from targets.processes import processes_with

from code_execution import execute_code
from environments import EnvironmentStartError, UnsupportedError
from environments.claim import Claim
from environments.conformance.check import wait_until
from environments.inventory import collect_garbage
from environments.modal import ModalEnvironment
from environments.modal.sandbox import key_of


@pytest.fixture
def use_and_kill(service: StandIn, nap: str) -> Iterator[Callable[[str, str], None]]:
    """Use a sandbox in another process, and kill that process."""
    yield lambda task, how: use_and_be_killed("modal", task, how, nap)
    collect_garbage()


def running(service: StandIn, task: str = "") -> list[dict]:
    """Return the requests of the running sandboxes."""
    found = service.seen["sandboxes"]
    assert isinstance(found, list)
    return [box for box in found if box["running"] and task in ("", box["tags"]["hermes-task"])]


def test_a_list_of_hosts_is_held_by_the_service_and_can_be_changed(service, make):
    env = make(task_id="hosts", network=["example.org", "*.example.net", "10.1.2.3"])
    env.execute("true")
    listed = {"networkAccessType": "ALLOWLIST", "allowedDomains": ["example.org", "*.example.net"]}
    assert running(service, "hosts")[0]["networkAccess"] == {**listed, "allowedCidrs": ["10.1.2.3/32"]}
    for network, held in (
        (["other.example"], {"networkAccessType": "ALLOWLIST", "allowedDomains": ["other.example"]}),
        ("none", {"networkAccessType": "ALLOWLIST"}),
        ("full", {"networkAccessType": "OPEN"}),
    ):
        env.set_network(network)
        assert running(service, "hosts")[0]["networkAccess"] == held
    with pytest.raises(UnsupportedError, match=r"supports no ports; leave out the port of 'example\.org:80'"):
        make(network=["example.org:80"])


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
        modal_gpu="T4",
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
    assert box["resources"]["gpuConfig"]["gpuType"] == "T4"
    (volume,) = box["volumeMounts"]
    assert (volume["mountPath"], volume["readOnly"]) == ("/models", True)
    layers = [line for layer in service.seen["images"] for line in layer["dockerfileCommands"]]
    assert "FROM debian:12" in layers
    assert "RUN apt-get update" in layers


def test_variables_reach_commands_and_are_not_in_the_sandboxs_description(service, make, monkeypatch):
    monkeypatch.setenv("MY_KEY", "a-secret-value")
    env = make(task_id="variables", modal_env={"PLAIN": "here"}, modal_forward_env=("MY_KEY", "NOT_SET"))
    look = "echo $PLAIN $MY_KEY ${NOT_SET-unset}"
    assert env.execute(look).output == "here a-secret-value unset\n"
    assert env.execute_oneshot(look).output == "here a-secret-value unset\n"
    assert "a-secret-value" not in str(service.seen)


def test_a_script_calls_tools_over_each_transport(make):
    def double(number: int) -> int:
        """Double a number."""
        return 2 * number

    code = "from hermes_tools import double\nprint([double(n) for n in range(3)])"
    env = make()
    for transport in ("file", "relay"):
        result = execute_code(code, env=env, tools={"double": double}, transport=transport)
        assert (result.status, result.output, result.tool_calls_made) == ("success", "[0, 2, 4]\n", 3), transport


def test_kept_files_that_the_service_has_lost_are_no_obstacle(make, home, caplog):
    env = make(task_id="lost", container_persistent=True)
    env.execute("echo kept >~/file")
    env.cleanup()
    (snapshot,) = (home / "modal-snapshots").iterdir()
    snapshot.write_text("im-snapshot-9999\n")
    again = make(task_id="lost", container_persistent=True)
    assert again.execute("cat ~/file 2>/dev/null; echo works").output == "works\n"
    assert "the kept files of task lost are gone" in caplog.text


def test_environments_of_one_process_share_a_sandbox_with_kept_files_which_the_next_one_has(service, make, nap):
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
    again = make(task_id="shared", container_persistent=True)
    assert again.execute("cat ~/file; ls -d ~/hermes-* 2>/dev/null | wc -l").output == "mine\nmore\n0\n"
    other = make(task_id="other", container_persistent=True)
    assert other.execute("cat ~/file").exit_code == 1


def test_kept_files_are_used_by_one_process_at_a_time(make):
    env = make(task_id="theirs", container_persistent=True)
    claim = Claim(f"modal-{key_of(env.settings)}")  # as another process would hold one
    assert claim.acquire()
    with pytest.raises(EnvironmentStartError, match="set another task_id"):
        env.execute("true")
    claim.release()
    assert env.execute("echo here").output == "here\n"


@pytest.mark.alone("garbage")
def test_the_sandbox_of_a_killed_process_is_taken_up_by_the_next_of_the_task(service, make, use_and_kill, nap):
    use_and_kill("taken", "kept")
    (before,) = running(service, "taken")
    assert wait_until(lambda: len(processes_with(nap)) == 1)  # the process may not have begun yet
    env = make(task_id="taken", container_persistent=True)
    assert env.execute("cat ~/file").output == "mine\n"
    assert processes_with(nap) == []
    (after,) = running(service, "taken")
    assert before["id"] == after["id"]
    assert before["tags"]["hermes-owner"] != after["tags"]["hermes-owner"]


@pytest.mark.alone("garbage")
def test_the_sandboxes_of_killed_processes_are_collected_and_kept_files_stay(service, make, use_and_kill):
    make(task_id="alive").execute("true")
    use_and_kill("orphan", "ended")
    use_and_kill("collected", "kept")
    (found_by_another,) = [each for each in ModalEnvironment.list_targets() if each.task == "orphan"]
    lines = collect_garbage()
    assert [sum(task in line for line in lines) for task in ("orphan", "collected", "alive")] == [1, 1, 0]
    assert running(service, "orphan") == running(service, "collected") == []
    found_by_another.collect()
    assert not [line for line in collect_garbage() if "orphan" in line]
    assert len(running(service, "alive")) == 1
    assert make(task_id="collected", container_persistent=True).execute("cat ~/file").output == "mine\n"


def test_a_program_that_ends_without_a_cleanup_leaves_no_sandbox(service):
    use_and_leave("modal")
    assert running(service, "left") == []


def test_no_process_and_no_session_has_a_thread_of_its_own(make):
    assert threads_of_streams(make()) == 0
