"""Faults of Modal's service and of the network to the service."""

from __future__ import annotations

import threading

import pytest
from standins.control import StandIn
from standins.faults import Fault
from standins.modal_client import close_client
from targets.printed_errors import refusal

from code_execution import execute_code
from environments import EnvironmentLostError, EnvironmentStartError
from environments.modal import environment as modal_environment
from environments.short_commands import service as service_calls

PASSING = [Fault.UNAVAILABLE, Fault.RATE_LIMITED, Fault.BAD_GATEWAY, Fault.DROPPED, Fault.SLOW]


def sandboxes(service: StandIn) -> int:
    found = service.seen["sandboxes"]
    assert isinstance(found, list)
    return len(found)


@pytest.mark.parametrize("fault", PASSING, ids=lambda fault: fault.name)
def test_a_passing_fault_of_the_start_is_got_over_with_one_sandbox(service, make, fault):
    for call in ("AppGetOrCreate", "SandboxCreateV2", "TaskExecStart", "TaskExecStdioRead"):
        before = sandboxes(service)
        service.fault(call, fault, times=2)
        env = make()
        assert env.execute("echo works; echo err >&2").output == "works\nerr\n", call
        env.cleanup()
        assert sandboxes(service) == before + 1, call


def test_a_command_under_a_passing_fault_runs_once(service, make):
    env = make()
    env.execute("true")
    for fault in (*PASSING, Fault.UNAUTHENTICATED):
        service.fault("TaskExecStdinWrite", fault)
        assert env.execute("echo ran >>~/count; echo done", timeout=60).output == "done\n", fault
    assert env.execute("cat ~/count").output == "ran\n" * 6


def test_output_goes_on_where_a_broken_connection_left_off(service, make):
    service.fault("TaskExecStdioRead", Fault.DROPPED, times=4)
    env = make()
    result = env.execute("seq 200000")
    assert result.output == "".join(f"{n}\n" for n in range(1, 200_001))


def test_input_of_a_process_arrives_once_under_faults(service, make):
    env = make()
    process = env.start("cat")
    for number in range(5):
        service.fault("TaskExecStdinWrite", PASSING[number])
        process.write(f"{number}\n")
    process.close_stdin()
    assert process.wait(30) == 0
    assert process.read() == "0\n1\n2\n3\n4\n"


def test_a_sandbox_that_dies_under_a_command_or_between_two_is_named_and_the_next_command_works(service, make, caplog):
    env = make()
    began = threading.Event()
    errors: list[Exception] = []

    def run() -> None:
        try:
            env.execute("echo begun; sleep 1000", on_output=lambda _: began.set())
        except EnvironmentLostError as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    assert began.wait(60)
    service.end_sandboxes()
    thread.join(60)
    (error,) = errors
    assert "sandbox sb-" in str(error)
    assert "has ended" in str(error)
    assert error.output == "begun\n"  # type: ignore[attr-defined]
    assert env.execute("echo again").output == "again\n"
    service.end_sandboxes()
    with pytest.raises(EnvironmentLostError, match="has ended"):
        env.execute("true")
    assert env.execute("echo again").output == "again\n"
    service.end_sandboxes()
    env.cleanup()
    assert not [record for record in caplog.records if record.levelname == "WARNING"]


def test_a_sandbox_that_dies_as_a_command_is_sent_is_an_error_and_the_command_is_not_sent_again(
    service, make, tmp_path
):
    env = make()
    env.execute("true")
    service.fault("TaskExecStdinWrite", Fault.SANDBOX_DIES)
    with pytest.raises(EnvironmentLostError):
        env.execute(f"echo ran >>{tmp_path}/count")
    assert not (tmp_path / "count").exists()
    assert env.execute("echo again").output == "again\n"


def test_patience_has_a_bound(service, make, monkeypatch):
    monkeypatch.setattr(service_calls, "PATIENCE", 1.0)
    service.fault("AppGetOrCreate", Fault.RATE_LIMITED, times=100)
    assert "no sandbox can be started" in refusal(lambda: make().execute("true"))
    service.clear_faults()
    assert make().execute("echo works").output == "works\n"


def test_credentials_that_are_not_taken_are_named_and_not_shown(service, make, monkeypatch):
    monkeypatch.setenv("MODAL_TOKEN_SECRET", "as-a-wrong-secret")
    close_client()
    try:
        with pytest.raises(EnvironmentStartError, match="set MODAL_TOKEN_ID and MODAL_TOKEN_SECRET") as caught:
            make().execute("true")
        told = f"{caught.value!r} {caught.value.__context__!r}"
        assert "as-a-wrong-secret" not in told
        assert "set MODAL_TOKEN_ID" in refusal(lambda: make().execute("true"))
    finally:
        close_client()


def test_where_no_input_reaches_a_process_commands_run_one_by_one(service, make, monkeypatch, caplog, tmp_path):
    monkeypatch.setattr(modal_environment, "PROBE_TIMEOUT", 1)
    service.fault("TaskExecStdinWrite", Fault.SWALLOWED, times=10_000)
    try:
        env = make()
        assert not env.capabilities.duplex
        assert not env.capabilities.pty
        assert "input does not reach processes" in caplog.text
        monkeypatch.undo()
        env.execute("cd /; export KEPT=yes; f() { echo function; }")
        assert env.execute("pwd; echo $KEPT; f; cat", stdin="input").output == "/\nyes\nfunction\ninput"
        assert env.execute("sleep 1000", timeout=0.5).timed_out
        assert env.execute_oneshot("seq 3").output == "1\n2\n3\n"
        data = bytes(range(256)) * 1000
        env.write_bytes(f"{tmp_path}/file", data)
        assert env.read_bytes(f"{tmp_path}/file") == data
        code = "from hermes_tools import double\nprint(double(21))"
        assert execute_code(code, env=env, tools={"double": lambda number: 2 * number}).output == "42\n"
        env.cleanup()
    finally:
        service.clear_faults()
