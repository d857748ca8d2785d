"""Start of a shell whose stream has received output in advance."""

from __future__ import annotations

import pytest
from targets.idle_stream import IdleStream

from environments.loop import run
from environments.output import Channel
from environments.shell.shell import Shell, ShellSpec


class EarlyStream(IdleStream):
    """A stream that delivers output as soon as it is started."""

    def __init__(self, *early: bytes) -> None:
        self.early = early
        self.written: list[bytes] = []

    def _begin(self) -> None:
        for data in self.early:
            self.receiver.data_received(Channel.STDOUT, data)

    def write(self, data: bytes) -> None:
        self.written.append(data)


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
def test_a_shell_receives_its_boot_text_once(on_terminal: bool, early: tuple[bytes, ...], times: int) -> None:
    async def work(_: object) -> list[bytes]:
        stream = EarlyStream(*early)
        Shell(stream, ShellSpec("marker/1/", on_terminal=on_terminal))
        return stream.written

    assert len(run(work)) == times
