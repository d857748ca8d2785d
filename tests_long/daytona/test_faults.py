"""Faults of Daytona's service and of the network to the service."""

from __future__ import annotations

import logging
import socket
import threading
from typing import NoReturn

import pytest
from standins.daytona_client import client
from standins.faults import Fault
from targets.printed_errors import refusal

from environments import EnvironmentLostError, EnvironmentStartError
from environments.daytona import service as daytona_service
from environments.loop import run
from environments.short_commands import service as service_calls

PASSING = [Fault.UNAVAILABLE, Fault.RATE_LIMITED, Fault.BAD_GATEWAY, Fault.DROPPED, Fault.SLOW]


def test_a_passing_fault_of_the_start_is_got_over_with_one_sandbox(service, make):
    for fault in PASSING:
        before = len(list(client().list()))
        service.fault("create", fault, times=2)
        service.fault("execute", fault, times=2)
        env = make()
        assert env.execute("echo works; echo err >&2").output == "works\nerr\n", fault
        assert len(list(client().list())) == before + 1, fault
        env.cleanup()


def test_commands_run_once_and_files_arrive_under_passing_faults(service, make):
    env, data = make(), bytes(range(256)) * 4000
    env.execute("true")
    for fault in PASSING:
        for command in ("echo ran >>~/count; echo done", "sleep 0.3; echo ran >>~/count; echo done"):
            service.fault("execute", fault, times=2)
            assert env.execute(command).output == "done\n", fault
        assert env.execute("cat ~/count; rm ~/count").output == "ran\nran\n", fault
        service.fault("upload", fault)
        env.write_bytes("~/file", data)
        service.fault("download", fault)
        assert env.read_bytes("~/file") == data, fault


def test_a_large_output_arrives_whole_over_broken_connections(service, make):
    env = make()
    env.execute("true")
    service.fault("download", Fault.DROPPED, times=2)
    assert env.execute("seq 200000").output == "".join(f"{number}\n" for number in range(1, 200_001))


def test_input_of_a_process_arrives_once_under_faults(service, make):
    process = make().start("cat")
    for number, fault in enumerate(PASSING):
        service.fault("execute", fault)
        process.write(f"{number}\n")
    process.close_stdin()
    assert process.wait(30) == 0
    assert process.read() == "0\n1\n2\n3\n4\n"


def test_a_fault_that_does_not_pass_ends_in_a_clear_error(service, make, monkeypatch):
    monkeypatch.setattr(service_calls, "PATIENCE", 0.5)
    service.fault("create", Fault.UNAVAILABLE, times=3)
    assert "no sandbox can be started" in refusal(lambda: make().execute("true"))
    assert make().execute("echo works").output == "works\n"


def test_a_service_that_takes_no_connections_for_a_moment_is_asked_again(service, make):
    env = make()
    env.execute("true")
    with socket.socket() as nobody:  # has a port, and listens at none
        nobody.bind(("127.0.0.1", 0))
        config = daytona_service.sdk.DaytonaConfig(
            api_key="any", api_url=f"http://127.0.0.1:{nobody.getsockname()[1]}/api"
        )

        async def ask(_: object) -> str:
            async with daytona_service.sdk.AsyncDaytona(config) as refused:
                clients = iter([refused, refused, await daytona_service.connect()])
                found = await daytona_service.retry(lambda: next(clients).get(env._sandbox.id), "it")
                return found.id

        assert run(ask) == env._sandbox.id


def test_an_unknown_host_is_not_retried(make, monkeypatch, caplog):
    def unknown(*_: object, **__: object) -> NoReturn:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setenv("DAYTONA_API_URL", "http://nobody.invalid/api")
    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with caplog.at_level(logging.INFO, "environments"), pytest.raises(EnvironmentStartError, match=r"nobody\.invalid"):
        make().execute("true")
    assert "next attempt follows" not in caplog.text


def test_credentials_that_are_no_longer_taken_are_named(service, make):
    service.fault("create", Fault.UNAUTHENTICATED)
    assert "credentials were refused" in refusal(lambda: make().execute("true"))


def test_a_sandbox_that_dies_under_a_command_is_an_error_with_the_output_so_far(service, make):
    env = make()
    env.execute("cd /tmp; export A=1")
    errors: list[EnvironmentLostError] = []
    began = threading.Event()

    def run() -> None:
        try:
            env.execute("echo so far; sleep 100", timeout=90, on_output=lambda text: began.set())
        except EnvironmentLostError as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    assert began.wait(30)
    client().get(env._sandbox.id).delete()
    thread.join(60)
    assert errors and errors[0].output == "so far\n" and "was deleted" in str(errors[0])
    assert env.execute("pwd").output == "/tmp\n"


def test_a_sandbox_that_was_stopped_is_started_again_with_its_files(make):
    env = make(task_id="stopped", container_persistent=True)
    env.execute("echo mine >~/file")
    sandbox = client().get(env._sandbox.id)
    sandbox.stop()
    with pytest.raises(EnvironmentLostError, match="is stopped"):
        env.execute("echo again")
    assert env.execute("cat ~/file").output == "mine\n"
    assert env._sandbox.id == sandbox.id
    env.cleanup()
    sandbox.delete()


def test_a_sandbox_that_breaks_down_when_it_is_started_is_recovered(service, make):
    first = make(task_id="broken", container_persistent=True)
    first.execute("echo mine >~/file")
    sandbox = client().get(first._sandbox.id)
    first.cleanup()
    service.fault("start", Fault.SANDBOX_DIES)
    second = make(task_id="broken", container_persistent=True)
    assert second.execute("cat ~/file").output == "mine\n"
    assert service.calls["recover"] == 1
    second.cleanup()
    sandbox.delete()
