"""A bash that is sent the recorded text of a command: the cost without our Python."""

from __future__ import annotations

import os
import selectors
import subprocess
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from environments.local import LocalEnvironment
from environments.shell.stream import Stream, Terminal
from environments.sources import load_settings

_SILENCE = 0.3
"""Seconds of silence after which the output of a bash is complete."""


class _RecordingEnvironment(LocalEnvironment):
    """Records the bytes written to the first shell."""

    argv: Sequence[str] = ()
    texts: tuple[bytes, ...] = ()

    async def open_stream(self, argv: Sequence[str], terminal: Terminal | None = None) -> Stream:
        stream = await super().open_stream(argv, terminal)
        if not self.argv:
            self.argv = argv
            write = stream.write

            def record(data: bytes) -> None:
                self.texts += (data,)
                write(data)

            stream.write = record  # type: ignore[method-assign]
        return stream


class ReplayedShell:
    """A bash that receives the recorded bytes of an environment's shell, and prints the same report."""

    def __init__(self, command: str) -> None:
        with _RecordingEnvironment(load_settings("local")) as env:
            env.execute(command)
            env.execute(command)
        *opening, _, self._text = env.texts
        pipe = subprocess.PIPE
        self._bash = subprocess.Popen(
            env.argv, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0, start_new_session=True, env=dict(os.environ)
        )
        assert self._bash.stdin and self._bash.stdout and self._bash.stderr
        self._stdin = self._bash.stdin
        self._selector = selectors.DefaultSelector()
        for stream in (self._bash.stdout, self._bash.stderr):
            self._selector.register(stream, selectors.EVENT_READ)
        for text in opening:
            self._stdin.write(text)
            self._read(_SILENCE)
        self._stdin.write(self._text)
        self._size = self._read(_SILENCE)

    def _read(self, silence: float) -> int:
        """Read until the output is complete, and return its number of bytes."""
        size = 0
        while ready := self._selector.select(silence):
            size += sum(len(os.read(key.fd, 65536)) for key, _ in ready)
        return size

    def run(self) -> None:
        """Run the command, and wait for its whole report."""
        self._stdin.write(self._text)
        size = 0
        while size < self._size:
            size += sum(len(os.read(key.fd, 65536)) for key, _ in self._selector.select(60))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._selector.close()
        self._bash.kill()
        self._bash.communicate()
