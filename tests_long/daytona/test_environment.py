"""Daytona through the service's own client, on the full stand-in."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from standins.control import StandIn
from standins.daytona_client import client
from standins.in_process import threads_of_streams, use_and_be_killed, use_and_leave
from targets.processes import processes_with

from code_execution import execute_code
from environments import EnvironmentStartError, UnsupportedError, create_environment
from environments.base import BaseEnvironment
from environments.claim import Claim
from environments.conformance.check import wait_until
from environments.daytona import DaytonaEnvironment
from environments.daytona.sandbox import key_of
from environments.daytona.service import sdk
from environments.inventory import collect_garbage
from environments.short_commands import stream


@pytest.fixture
def use_and_kill(service: StandIn, nap: str) -> Iterator[Callable[[str, str], None]]:
    """Use a sandbox in another process, and kill that process."""
    yield lambda task, how: use_and_be_killed("daytona", task, how, nap)
    collect_garbage()


def last_created(service: StandIn) -> dict[str, object]:
    created = service.seen["created"]
    assert isinstance(created, list)
    return created[-1]  # type: ignore[no-any-return]


def sandbox_of(env: BaseEnvironment) -> sdk.Sandbox:
    return client().get(env.target.id)


def states() -> dict[str, str]:
    return {sandbox.id: str(sandbox.state.value) for sandbox in client().list() if sandbox.state}


def test_a_sandbox_is_what_the_settings_ask_for(service, make, monkeypatch):
    monkeypatch.setenv("MINE", "forwarded")
    env = make(
        image="debian:12",
        container_cpu=1,
        container_memory=2048,
        container_disk=4096,
        daytona_env={"GIVEN": "1"},
        forward_env=["MINE", "NOT_SET"],
        network=False,
        task_id="a task",
    )
    assert env.execute("echo $GIVEN $MINE").output == "1 forwarded\n"
    asked = last_created(service)
    assert "FROM debian:12" in str(asked["buildInfo"])
    assert (asked["cpu"], asked["memory"], asked["disk"]) == (1, 2, 4)
    assert asked["networkBlockAll"] is True
    assert (asked["autoStopInterval"], asked["autoDeleteInterval"]) == (0, 0)
    labels = asked["labels"]
    assert isinstance(labels, dict) and labels["hermes-task"] == "a_task"
    assert env.capabilities.enforced_limits == {"container_cpu", "container_memory", "container_disk"}
    assert "forwarded" not in repr(env.settings)


def test_a_list_of_hosts_is_held_by_the_service_and_can_be_changed(service, make):
    env = make(network=["example.org", "*.example.net", "10.1.0.0/16"])
    env.execute("true")
    asked = last_created(service)
    assert (asked["networkBlockAll"], asked["networkAllowList"]) == (False, "10.1.0.0/16")
    assert asked["domainAllowList"] == "example.org,*.example.net"
    box = sandbox_of(env)
    for network, held in (
        (["other.example"], (False, "", "other.example")),
        ("none", (True, None, None)),
        ("full", (False, None, None)),
    ):
        env.set_network(network)
        box.refresh_data()
        assert (box.network_block_all, box.network_allow_list, box.domain_allow_list) == held
    with pytest.raises(UnsupportedError, match=r"supports no ports; leave out the port of 'example\.org:80'"):
        env.set_network(["example.org:80"])
    with pytest.raises(UnsupportedError, match="IPv4 addresses only"):
        make(network=["[2001:db8::1]"])
    env.set_network("none")
    env.renew()
    box.refresh_data()
    assert box.domain_allow_list == "example.org,*.example.net"


def test_a_snapshot_is_used_as_it_is_and_the_sandbox_is_gone_after_cleanup(service, make):
    env = make(snapshot="mine")
    env.execute("true")
    asked = last_created(service)
    assert asked["snapshot"] == "mine" and not asked.get("buildInfo")
    sandbox = sandbox_of(env).id
    env.cleanup()
    assert sandbox not in states()


def test_cleanup_does_not_wait_for_a_pending_answer_of_the_sandbox(make, monkeypatch):
    monkeypatch.setattr(stream, "WAIT", 300.0)
    env = make()
    for run in (env.execute, env.execute_oneshot):
        run("(while :; do echo noise; sleep 0.1; done) & echo ok")
    assert env.execute("echo on").output == "on\n"  # in a shell with another connection from here on
    cleanup = threading.Thread(target=env.cleanup)
    cleanup.start()
    cleanup.join(40)  # less than the full wait
    assert not cleanup.is_alive()


def test_a_kept_sandbox_has_its_files_and_no_processes_the_next_time_also_from_the_archive(service, make):
    first = make(task_id="kept", container_persistent=True, auto_archive=60, auto_delete=600)
    first.execute("echo mine >~/file; sleep 1000 &")
    asked = last_created(service)
    assert (asked["autoStopInterval"], asked["autoArchiveInterval"], asked["autoDeleteInterval"]) == (0, 60, 600)
    sandbox = sandbox_of(first).id
    first.cleanup()
    assert states()[sandbox] == "stopped"
    second = make(task_id="kept", container_persistent=True)
    assert second.execute("cat ~/file; ls -d ${TMPDIR:-/tmp}/hermes-* | wc -l").output == "mine\n1\n"
    assert sandbox_of(second).id == sandbox
    second.cleanup()
    client().get(sandbox).archive()
    third = make(task_id="kept", container_persistent=True)
    assert third.execute("cat ~/file").output == "mine\n"
    third.cleanup()
    client().get(sandbox).delete()


def test_a_kept_sandbox_of_another_image_is_another_one(make):
    made = [make(task_id="same", container_persistent=True, image=image) for image in ("a", "b")]
    found = {sandbox_of(env).id for env in made if env.execute("true").ok}
    assert len(found) == 2
    for env in made:
        sandbox = sandbox_of(env)
        env.cleanup()
        sandbox.delete()


def test_environments_of_one_process_share_a_kept_sandbox(make, nap):
    first, second = (make(task_id="mine", container_persistent=True) for _ in range(2))
    first.execute("echo mine >~/file; export WHO=first")
    assert second.execute("cat ~/file; echo $WHO").output == "mine\n\n"
    assert sandbox_of(first).id == sandbox_of(second).id
    process = second.start(f"sleep {nap}")
    sandbox = sandbox_of(first)
    first.cleanup()
    assert states()[sandbox.id] == "started"
    assert process.running
    assert second.execute("cat ~/file").output == "mine\n"
    second.cleanup()
    assert states()[sandbox.id] == "stopped"
    sandbox.delete()


def test_a_kept_sandbox_is_used_by_one_process_at_a_time(make):
    env = make(task_id="theirs", container_persistent=True)
    claim = Claim(f"daytona-{key_of(env.settings)}")  # as another process would hold one
    assert claim.acquire()
    with pytest.raises(EnvironmentStartError, match="in use by another process"):
        env.execute("true")
    claim.release()
    assert env.execute("echo here").output == "here\n"
    sandbox = sandbox_of(env)
    env.cleanup()
    sandbox.delete()


@pytest.mark.alone("garbage")
def test_a_sandbox_of_a_killed_process_is_collected(use_and_kill):
    before = set(states())
    use_and_kill("orphan", "not kept")
    (sandbox,) = set(states()) - before
    (found_by_another,) = [each for each in DaytonaEnvironment.list_targets() if each.id == sandbox]
    assert [line for line in collect_garbage() if found_by_another.short_id in line]
    assert sandbox not in states()
    found_by_another.collect()


@pytest.mark.alone("garbage")
def test_a_kept_sandbox_of_a_killed_process_is_reused_without_its_processes(use_and_kill, make, nap):
    use_and_kill("again", "kept")
    env = make(task_id="again", container_persistent=True)
    assert env.execute("cat ~/file").output == "mine\n"
    assert processes_with(nap) == []
    sandbox = sandbox_of(env)
    env.cleanup()
    sandbox.delete()


def test_credentials_that_are_not_taken_are_named_and_not_shown(service, monkeypatch, caplog):
    monkeypatch.setenv("DAYTONA_API_KEY", "dtn_secret_of_mine")
    caplog.set_level(logging.DEBUG)
    with pytest.raises(EnvironmentStartError, match=r"refused.*DAYTONA_API_KEY") as raised:
        create_environment("daytona").execute("true")
    assert "dtn_secret_of_mine" not in f"{raised.value} {raised.value.__context__} {caplog.text}"


def test_a_terminal_is_our_shell_and_nothing_of_the_login_shell_shows(make):
    process = make().start("tty && stty size; read -r x; echo got $x; exit 5", pty=True, rows=30, columns=99)
    seen = [process.read()]

    def is_sized() -> bool:
        seen.append(process.read())
        return "30 99" in "".join(seen)

    assert wait_until(is_sized, 60)  # earlier input is echoed earlier, as on every terminal
    process.write("abc\n")
    assert process.wait(60) == 5
    output = "".join(seen) + process.read()
    assert output.startswith("/dev/") and output.endswith("30 99\r\nabc\r\ngot abc\r\n")


def test_time_limits_of_the_client_touch_no_thread_of_the_user(make):
    import signal

    before = signal.getsignal(signal.SIGALRM), signal.getitimer(signal.ITIMER_REAL)
    env = make()
    thread = threading.Thread(target=env.execute, args=("true",))
    thread.start()
    thread.join(60)
    assert env.execute("echo here").output == "here\n"
    env.cleanup()
    handler, (left, interval) = signal.getsignal(signal.SIGALRM), signal.getitimer(signal.ITIMER_REAL)
    assert (handler, interval) == (before[0], before[1][1])
    assert bool(left) == bool(before[1][0]) and left <= before[1][0], "a limit of the user's own still runs"


def test_the_client_librarys_earlier_name_works_too(tmp_path):
    (tmp_path / "daytona_sdk").symlink_to(Path(sdk.__path__[0]))
    code = (
        "import sys\n"
        "sys.modules['daytona'] = None\n"
        f"sys.path.insert(0, {str(tmp_path)!r})\n"
        "from environments.daytona import DaytonaEnvironment\n"
        "from environments.daytona.service import sdk\n"
        "print(sdk.__name__)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert found.stdout == "daytona_sdk\n", found.stderr


def test_a_script_calls_tools_and_is_ended_with_its_output_when_it_takes_too_long(make):
    env = make()
    code = "from hermes_tools import add\nprint(sum(add(a=n, b=1)['sum'] for n in range(10)))"
    result = execute_code(code, env=env, tools={"add": lambda a, b: {"sum": a + b}}, timeout=90)
    assert (result.status, result.output, result.tool_calls_made) == ("success", "55\n", 10)
    result = execute_code("print('so far'); import time; time.sleep(1000)", env=env, tools={}, timeout=4)
    assert result.status == "timeout" and result.output.startswith("so far\n")


def test_a_program_that_ends_without_a_cleanup_leaves_no_sandbox(service):
    deletions = service.calls.get("delete", 0)
    use_and_leave("daytona")
    assert service.calls["delete"] == deletions + 1


def test_no_process_and_no_session_has_a_thread_of_its_own(make):
    assert threads_of_streams(make()) == 0
