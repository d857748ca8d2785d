"""Standard input as the source of a copy, and standard output as its destination."""

from __future__ import annotations

import os
import select
import shlex
import sys
import tempfile
import threading
from pathlib import Path
from typing import BinaryIO

from environments.base import BaseEnvironment
from environments.cancellation import check_scope, ended_in_scope
from environments.errors import TerminalError
from environments.output import BoundedCapture, Channel
from environments.starting import Counter
from hermes_env.cli.copying.copy import status_there
from hermes_env.cli.standard_input import PIECE
from hermes_env.cli.streams import LiveOutput

_POLL = 100
"""Milliseconds between looks at whether the copy is still wanted."""
_LONGEST_REASON = 4096


def upload_stream(environment: BaseEnvironment, source: int, destination: str) -> None:
    """Write all that comes from a descriptor to a file of the target, in one step at its end.

    Args:
        environment: Where to.
        source: The descriptor.
        destination: The file. One that is there keeps its permissions.

    Raises:
        TerminalError: It could not be read or written.
        CallCancelledError: The scope of the current thread was cancelled.
    """
    there = status_there(environment, destination)
    if (there and there.is_dir) or destination.endswith("/"):
        raise TerminalError(f"cannot write standard input to {destination}: it is a directory; name a file in it")
    # Until its end nobody knows whether it is whole, and how long it is.
    with tempfile.TemporaryDirectory(prefix="hermes-cp-") as folder:
        spool = Path(folder, "input")
        with spool.open("wb") as file:
            _take_all(source, file)
        if there:
            spool.chmod(there.mode)
        environment.put_file(spool, destination)


def _take_all(source: int, file: BinaryIO) -> None:
    ready = select.poll()
    ready.register(source, select.POLLIN)
    while True:
        check_scope()
        if not ready.poll(_POLL):
            continue
        try:
            data = os.read(source, PIECE)
        except BlockingIOError:  # somebody else who has it open was quicker
            continue
        except OSError as error:
            raise TerminalError(f"cannot read standard input: {error.strerror}") from error
        if not data:
            return
        try:
            file.write(data)
        except OSError as error:
            raise TerminalError(f"cannot keep standard input in {file.name}: {error.strerror}") from error


def download_stream(environment: BaseEnvironment, source: str, output: LiveOutput) -> None:
    """Write a file of the target to standard output, as it comes.

    Args:
        environment: Where it is.
        source: The file.
        output: Standard output.

    Raises:
        TerminalError: It could not be read or written.
        CallCancelledError: The scope of the current thread was cancelled.
    """
    status = environment.stat(source)
    if status.is_dir:
        raise TerminalError(
            f"cannot write {source} to standard output: it is a directory; use "
            f"`hermes-env exec -- tar -C {shlex.quote(source)} -c .`"
        )
    if not status.is_file:
        raise TerminalError(f"cannot read {source}: it is not a regular file")
    # On a terminal a bar would be drawn into what is shown.
    if sys.stdout.isatty():
        _show(environment, source, _Shown(output, None))
        return
    progress, what = environment.progress, f"downloading {source}"
    count = Counter(progress, what, status.size)
    progress.report(what, 0, status.size)
    _show(environment, source, _Shown(output, count))
    progress.report(what, count.done, count.done, complete=True)


def _show(environment: BaseEnvironment, source: str, sink: _Shown) -> None:
    over = threading.Event()
    process = environment.internal.start(f"cat -- {_word(source)}", stdin="none", sink=sink)
    process.add_done_callback(lambda _: over.set())
    try:
        with ended_in_scope(over.set):
            over.wait()
        check_scope()
        code = process.poll()
    finally:
        sink.freeze()
        process.kill()
    if code:
        raise TerminalError(f"cannot read {source}: {sink.reason or f'exit code {code}'}")


def _word(path: str) -> str:
    """Return a path as a word of shell text, where a tilde stays the home."""
    home, slash, rest = path.partition("/")
    return f"~{slash}{shlex.quote(rest) if rest else ''}" if home == "~" else shlex.quote(path)


class _Shown:
    """Hands on standard output, and keeps the words of standard error. See `OutputSink`."""

    separate = True

    def __init__(self, output: LiveOutput, count: Counter | None) -> None:
        self._output = output
        self._count = count
        self._said = BoundedCapture(_LONGEST_REASON)

    @property
    def reason(self) -> str:
        """What was said of a failure."""
        return self._said.text().text.strip()

    def add(self, channel: Channel, data: bytes) -> None:
        """Take the next bytes."""
        if channel is Channel.STDERR:
            self._said.add(data)
        else:
            self._output.add(channel, data)
            if self._count:
                self._count.add(len(data))

    def freeze(self) -> None:
        """Show nothing more."""
        self._output.freeze()
