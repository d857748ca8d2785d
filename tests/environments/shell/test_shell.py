"""A shell and what its stream has taken in before the shell is there."""

from __future__ import annotations

import pytest

from environments.loop import run
from environments.output import Channel
from environments.shell.shell import Shell, ShellSpec
from environments.shell.stream import Stream


class EarlyStream(Stream):
    """Hands on what has arrived already as soon as it is started."""

    def __init__(self, *early: bytes) -> None:
        self.early = early
        self.written: list[bytes] = []

    def _begin(self) -> None:
        for data in self.early:
            self.receiver.data_received(Channel.STDOUT, data)

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def close_write(self) -> None:
        pass

    def pause(self) -> None:
        pass

    def resume(self) -> None:
        pass

    async def exit_code(self, timeout: float) -> int | None:
        return None

    async def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("on_terminal", "early", "times"),
    [
        (True, (b"ok",), 1),
        (True, (b"a greeting\r\n", b"o", b"k"), 1),
        (True, (), 0),
        (False, (), 1),
        (False, (b"a greeting\n",), 1),
    ],
)
def test_a_shell_is_told_once_how_to_begin(on_terminal: bool, early: tuple[bytes, ...], times: int) -> None:
    async def work(_: object) -> list[bytes]:
        stream = EarlyStream(*early)
        Shell(stream, ShellSpec("marker/1/", on_terminal=on_terminal))
        return stream.written

    assert len(run(work)) == times
