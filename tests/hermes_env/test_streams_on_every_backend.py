"""What streams through a command, on every backend: over its streams, or by short commands where it has none."""

from __future__ import annotations

import os
import signal
import termios
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from targets.backends import BACKENDS
from targets.processes import all_gone, having

from environments import BaseEnvironment, UnsupportedError
from environments.conformance.check import wait_until
from environments.sink import Channel
from hermes_env.copying.streams import download_stream, upload_stream
from hermes_env.interactive.session import InteractiveSession
from hermes_env.live_output import LiveOutput
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


def test_a_file_passes_both_ways(environment: BaseEnvironment, pipe: tuple[int, int], tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(BYTES)
    place = f"{environment.scratch_directory()}/it's new"
    with (tmp_path / "in").open("rb") as source, (tmp_path / "out").open("w") as out:
        upload_stream(environment, source.fileno(), place)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("sys.stdout", out)
            download_stream(environment, place, LiveOutput(lambda: None))
    assert (tmp_path / "out").read_bytes() == BYTES


class Window(Sink):
    """A terminal of a person's, who does the next thing when something is seen."""

    def __init__(self) -> None:
        super().__init__()
        self.screen, self.terminal = os.openpty()
        self._changed = threading.Condition()

    def add(self, channel: Channel, data: bytes) -> None:
        with self._changed:
            self.data += data
            self._changed.notify_all()

    def shows(self, text: str) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: text.encode() in self.data, 60)

    def close(self) -> None:
        os.close(self.screen)
        os.close(self.terminal)


@pytest.fixture
def window() -> Iterator[Window]:
    window = Window()
    yield window
    window.close()


def test_a_person_is_at_a_terminal_there(environment: BaseEnvironment, window: Window, nap: str) -> None:
    termios.tcsetwinsize(window.screen, (33, 111))
    session = InteractiveSession(window.terminal)
    if not environment.capabilities.pty:
        with pytest.raises(UnsupportedError):
            session.run(environment, "true", window)
        return

    command = (
        f"trap 'exit 7' INT; stty size; read -r word; until stty size | grep '20 66'; do sleep 0.1; done; sleep {nap}"
    )
    with ThreadPoolExecutor() as pool, session.heeding_signals():
        code = pool.submit(session.run, environment, command, window)
        try:
            assert window.shows("33 111")
            termios.tcsetwinsize(window.screen, (20, 66))
            signal.raise_signal(signal.SIGWINCH)
            os.write(window.screen, b"go\n")
            assert window.shows("20 66")
            assert wait_until(lambda: having(nap), 60)  # a shell that has yet to start it heeds its trap only behind it
            os.write(window.screen, b"\x03")
            assert code.result(60) in (7, 130), "Singularity's own program in front of it is interrupted as well"
        finally:
            session.interrupt()
    assert all_gone(nap)
