"""A process that becomes a shell: the first words to it, and its answer."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from environments.errors import EnvironmentStartError
from environments.log import logger
from environments.shell.dialect.base import Dialect
from environments.shell.dialect.boot import Prelude
from environments.shell.framing import WATCHED, FrameScanner, Kind, Message
from environments.shell.shell import ANSWER_TIMEOUT, Shell
from environments.shell.state import SessionState
from environments.shell.stream import Stream
from environments.sink import Channel

IN_PLACE, ELSEWHERE, NOWHERE = "0", "1", "2"
"""Where a new shell is: in the directory it was to start in, where its process started, or in one that is removed."""

CHECK_AGAIN = 0.25
"""Seconds between two looks at whether the answer of a new shell is still waited for."""

log = logger(__name__)


class Beginning(NamedTuple):
    """How a shell is to begin."""

    marker: str
    """What the marker variable begins with for its commands."""
    state: SessionState = SessionState()
    """What an earlier shell held."""
    functions: bool = True
    """Whether to bring back functions and aliases too."""
    cwd: str | None = None
    """The directory to start in; None is where the process starts."""
    nowhere: str | None = None
    """See `Dialect.opening`."""
    exports: Mapping[str, str] = MappingProxyType({})
    """Variables that it is to export."""
    known: type[Dialect] | None = None
    """The kind of shell, where it is known from an earlier one."""
    lags: bool = False
    """Whether what the process prints may arrive late, see `Shell`."""
    on_terminal: bool = False
    """Whether the stream is a terminal, whose echo must be off before anything is sent."""
    script_apart: bool = False
    """Whether it is a terminal that commands read from, see `terminal_stream`."""


def open_shell(stream: Stream, beginning: Beginning, check: Callable[[], object] = lambda: None) -> tuple[Shell, str]:
    """Make a shell of a process that was started with `boot_argv`; on any error, close its stream.

    Args:
        stream: The process.
        beginning: How the shell is to begin.
        check: Called now and then while it gives no answer, and raises what ends the wait for that.

    Returns:
        The shell, and where it is: `IN_PLACE`, `ELSEWHERE` or `NOWHERE`.

    Raises:
        EnvironmentStartError: It did not answer.
    """
    began = time.monotonic()
    deadline = began + ANSWER_TIMEOUT
    try:
        if beginning.on_terminal:
            await_raw_terminal(stream, deadline)
        prelude = Prelude(beginning.marker, beginning.known, beginning.script_apart, beginning.on_terminal)
        text = prelude.text(beginning.state, beginning.functions, beginning.cwd, beginning.nowhere, beginning.exports)
        scanners = {channel: FrameScanner(prelude.nonce) for channel in Channel}
        ready = _await_ready(stream, scanners, text.encode("utf-8", "surrogateescape"), deadline, check)
        variables = dict(zip(WATCHED, (ready.text(index) for index in range(4, len(ready.fields))), strict=True))
        dialect, pid = prelude.dialect(ready.text(1)), int(ready.fields[0])
        shell = Shell(stream, dialect, scanners, pid, variables, ready.text(3), beginning.state, beginning.lags)
        log.debug("shell %s, process %d there, answered after %.3f s", ready.text(1), pid, time.monotonic() - began)
        return shell, ready.text(2)
    except BaseException:
        stream.close()
        raise


def await_raw_terminal(stream: Stream, deadline: float) -> None:
    """Wait until a process that was started on a terminal has turned its echo off.

    Raises:
        EnvironmentStartError: It could not.
    """
    seen = b""
    while not seen.endswith(b"ok"):  # the login shell of an SSH user may greet first
        chunk = stream.read(max(0.0, deadline - time.monotonic()))
        if chunk is None or not chunk.data:
            raise EnvironmentStartError(f"the terminal could not be set up{_quote(seen)}")
        seen = (seen + chunk.data)[-4096:]


def _await_ready(
    stream: Stream,
    scanners: dict[Channel, FrameScanner],
    text: bytes,
    deadline: float,
    check: Callable[[], object],
) -> Message:
    noise = b""
    with contextlib.suppress(BrokenPipeError):  # it has ended, and what it said about that is there to be read
        stream.write(text)
    while (left := deadline - time.monotonic()) > 0:
        chunk = stream.read(min(left, CHECK_AGAIN))
        if chunk is None:
            check()
            continue
        if not chunk.data:
            raise EnvironmentStartError(f"the shell ended at once{_quote(noise)}")
        parts: Sequence[bytes | Message] = scanners[chunk.channel].feed(chunk.data)
        for part in parts:
            if isinstance(part, bytes):
                noise = noise[:4096] + part[:1000]
            elif part.kind is Kind.READY:
                return part
    raise EnvironmentStartError(f"the shell gave no answer for {ANSWER_TIMEOUT:.0f} s{_quote(noise)}")


def _quote(noise: bytes) -> str:
    text = noise.decode("utf-8", "replace").strip()
    return f": {text[:500]}" if text else ""
