"""Data on the streams of `exec`, `cp` and `shell`, on this machine with and without a persistent shell."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from targets.backends import local, per_command
from targets.processes import all_gone
from targets.streamed import (
    MemoryOutput,
    check_a_terminal_passes_its_size_and_control_c,
    check_a_time_out_ends_a_command_that_does_not_read,
    check_every_byte_passes_both_ways,
    streamed,
)

from environments import BaseEnvironment, CancelScope, UnsupportedError
from environments.conformance.check import wait_until
from environments.shell.process import ShellProcess
from hermes_env.cli.exec import Ending, run_streamed
from hermes_env.cli.shell import InteractiveSession


@pytest.fixture(scope="module", params=[local, per_command], ids=["local", "per command"])
def environment(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BaseEnvironment]:
    with request.param(tmp_path_factory.mktemp("there")) as subject, subject.make() as environment:
        yield environment


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reader, writer = os.pipe()
    yield reader, writer
    os.close(reader)
    os.close(writer)


def test_every_byte_passes_both_ways(environment: BaseEnvironment) -> None:
    check_every_byte_passes_both_ways(environment)


def test_an_input_that_stays_open_is_not_waited_for(environment: BaseEnvironment, pipe: tuple[int, int]) -> None:
    for command in ("echo done", "head -c 3 >/dev/null; echo done", "exec <&-; echo done"):
        os.write(pipe[1], b"abc")
        assert streamed(environment, command, pipe[0]) == (b"done\n", Ending(0))


def test_an_input_without_end_ends_with_the_command(environment: BaseEnvironment) -> None:
    with Path("/dev/zero").open("rb") as endless:
        assert streamed(environment, "sleep 0.2; head -c 3", endless.fileno()) == (b"\0\0\0", Ending(0))


def test_a_time_out_ends_a_command_that_does_not_read(environment: BaseEnvironment, nap: str) -> None:
    check_a_time_out_ends_a_command_that_does_not_read(environment, nap, timeout=1)


def check_an_interrupt_ends_a_command(environment: BaseEnvironment, nap: str, source: int | None) -> None:
    sink = MemoryOutput()
    scope = CancelScope()
    thread = threading.Thread(target=lambda: (sink.shows(b"begun"), scope.cancel()))
    thread.start()
    ended = run_streamed(environment, f"echo begun; sleep {nap}", sink, scope, source=source)
    assert ended == Ending(130, interrupted=True)
    thread.join()
    assert all_gone(nap)


def test_an_interrupt_ends_a_command(environment: BaseEnvironment, pipe: tuple[int, int], nap: str) -> None:
    check_an_interrupt_ends_a_command(environment, nap, pipe[0])


def delay_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have polls by this thread wait for the end of the process, up to 2 s."""
    poll, here = ShellProcess.poll, threading.current_thread()

    def late(process: ShellProcess) -> int | None:
        if threading.current_thread() is here:
            wait_until(lambda: poll(process) is not None, 2)
        return poll(process)

    monkeypatch.setattr(ShellProcess, "poll", late)


def test_a_command_that_has_ended_as_it_was_interrupted_is_interrupted(
    environment: BaseEnvironment, nap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not ended with exit code 143, as happened when the end was noticed before the interrupt."""
    delay_polls(monkeypatch)
    check_an_interrupt_ends_a_command(environment, nap, None)


def test_a_terminals_command_that_has_ended_as_it_was_interrupted_is_interrupted(
    environment: BaseEnvironment, nap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not environment.capabilities.pty:
        return
    delay_polls(monkeypatch)
    sink, ends, scope = MemoryOutput(), os.openpty(), CancelScope()
    session = InteractiveSession(ends[1], scope)
    thread = threading.Thread(target=lambda: (sink.shows(b"begun"), scope.cancel()))
    thread.start()
    assert session.run(environment, f"echo begun; sleep {nap}", sink) == 130
    thread.join()
    for end in ends:
        os.close(end)


def test_a_person_is_at_a_terminal_there(environment: BaseEnvironment, nap: str) -> None:
    if environment.capabilities.pty:
        check_a_terminal_passes_its_size_and_control_c(environment, nap)
        return
    with open(os.openpty()[1], "rb") as terminal, pytest.raises(UnsupportedError):
        InteractiveSession(terminal.fileno(), CancelScope()).run(environment, "true", MemoryOutput())
