"""What streams through a command, on every backend: over its streams, or by short commands where it has none."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from targets.backends import BACKENDS
from targets.processes import all_gone

from environments import BaseEnvironment
from environments.sink import Channel
from hermes_env.streamed_command import Ending, StreamedCommand

BYTES = bytes(range(256)) * 4000


class Sink:
    """Keeps what it gets."""

    separate = False

    def __init__(self) -> None:
        self.data = bytearray()
        self.came = threading.Event()

    def add(self, channel: Channel, data: bytes) -> None:
        self.data += data
        self.came.set()

    def freeze(self) -> None:
        pass


@pytest.fixture(scope="module", params=BACKENDS, ids=lambda backend: backend.__name__)
def environment(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BaseEnvironment]:
    with request.param(tmp_path_factory.mktemp("there")) as subject, subject.make() as environment:
        yield environment


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reader, writer = os.pipe()
    yield reader, writer
    os.close(reader)
    os.close(writer)


def run(environment: BaseEnvironment, command: str, source: int | None, timeout: float = 60) -> tuple[bytes, Ending]:
    sink = Sink()
    ending = StreamedCommand(command, timeout, source).run(environment, sink)
    return bytes(sink.data), ending


def test_every_byte_passes_both_ways(environment: BaseEnvironment, tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(BYTES)
    with (tmp_path / "in").open("rb") as source:
        got, ending = run(environment, "cat; exit 5", source.fileno())
    assert got == BYTES
    assert ending.exit_code == 5


def test_an_input_that_stays_open_is_not_waited_for(environment: BaseEnvironment, pipe: tuple[int, int]) -> None:
    os.write(pipe[1], b"abc")
    assert run(environment, "echo done", pipe[0]) == (b"done\n", Ending(0))


def test_an_input_without_end_waits_for_room_and_ends_with_the_command(environment: BaseEnvironment) -> None:
    with Path("/dev/zero").open("rb") as endless:
        got, ending = run(environment, "sleep 3; head -c 3", endless.fileno())
    assert (got, ending) == (b"\0\0\0", Ending(0))


def test_a_time_out_ends_a_command_that_does_not_read(environment: BaseEnvironment, nap: str) -> None:
    with Path("/dev/zero").open("rb") as endless:
        _, ending = run(environment, f"sleep {nap}", endless.fileno(), timeout=4)
    assert (ending.exit_code, ending.timed_out) == (124, True)
    assert all_gone(nap)


def test_an_interrupt_ends_a_command(environment: BaseEnvironment, pipe: tuple[int, int], nap: str) -> None:
    sink = Sink()
    command = StreamedCommand(f"echo begun; sleep {nap}", None, pipe[0])
    thread = threading.Thread(target=lambda: (sink.came.wait(60), command.interrupt()))
    thread.start()
    assert command.run(environment, sink) == Ending(130, interrupted=True)
    thread.join()
    assert all_gone(nap)
