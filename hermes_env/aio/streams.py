"""Whatever runs commands in a session can stream what they print."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from typing import Literal, TypedDict, Unpack, overload

from environments import BaseEnvironment, CommandResult, EnvironmentSession
from environments.call import Command, StderrMode
from hermes_env.aio.streaming import BytesPiece, OutputStream, RunningStream, TextPiece


class StreamArguments(TypedDict, total=False):
    """What a command of a stream may be asked for with, see `BaseEnvironment.execute`."""

    cwd: str | None
    timeout: float | None
    stdin: str | bytes | None
    stderr: StderrMode
    env: Mapping[str, str] | None
    user: str | int | None
    max_output_bytes: int | None
    interrupt: threading.Event | None


class Streams(ABC):
    """The part of an environment, and of a session, that streams the output of commands."""

    @property
    @abstractmethod
    def sync(self) -> BaseEnvironment | EnvironmentSession:
        """What is beneath."""

    @property
    @abstractmethod
    def _patience(self) -> float:
        """Seconds that a command may take if nothing else is said."""

    @property
    @abstractmethod
    def _is_over(self) -> bool:
        """Whether it is being ended."""

    @overload
    def stream(
        self, command: Command, *, binary: Literal[False] = False, **arguments: Unpack[StreamArguments]
    ) -> OutputStream[TextPiece]: ...

    @overload
    def stream(
        self, command: Command, *, binary: Literal[True], **arguments: Unpack[StreamArguments]
    ) -> OutputStream[BytesPiece]: ...

    @overload
    def stream(
        self, command: Command, *, binary: bool, **arguments: Unpack[StreamArguments]
    ) -> OutputStream[TextPiece] | OutputStream[BytesPiece]: ...

    def stream(
        self, command: Command, *, binary: bool = False, **arguments: Unpack[StreamArguments]
    ) -> OutputStream[TextPiece] | OutputStream[BytesPiece]:
        """Run a command in the session as `execute` does, and go through what it prints: `async for piece in ...`.

        Meanwhile the session is taken: what is awaited in the loop goes beside it, by `execute_oneshot`.

        Args:
            command: As for `execute`.
            binary: Whether the pieces are bytes.
            arguments: All others of `execute`, but `on_output`.

        Raises:
            TypeError: There is no such argument.
        """
        if unknown := sorted(arguments.keys() - StreamArguments.__annotations__.keys()):
            raise TypeError(f"stream() has no argument {unknown[0]!r}")
        run: Callable[..., CommandResult] = partial(self.sync.execute, command, binary=binary, **arguments)
        timeout, interrupt = arguments.get("timeout"), arguments.get("interrupt")
        patience = self._patience if timeout is None else timeout

        def is_over() -> bool:
            return self._is_over or bool(interrupt and interrupt.is_set())

        def running() -> RunningStream:
            return RunningStream(lambda tell: run(on_output=tell), is_over, patience, self.sync)

        return OutputStream(running, BytesPiece) if binary else OutputStream(running, TextPiece)
