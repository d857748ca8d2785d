"""A local backend that acts as a service with short commands and file transfers only."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncGenerator
from pathlib import Path

from environments.errors import TerminalError
from environments.loop import done_within
from environments.output import Channel
from environments.result import CommandResult
from environments.shell.child_stream import ChildStream
from environments.shell.stream import Discard
from environments.short_commands.environment import PerCommandEnvironment

PIECE = 64 * 1024


class _Said(Discard):
    def __init__(self) -> None:
        self.output = b""

    def data_received(self, channel: Channel, data: bytes) -> None:
        self.output += data


class PerCommandLocal(PerCommandEnvironment):
    """Runs each command in a new shell, as its standard input."""

    is_lost = False
    drop_answers_of = ""
    """Commands with this text run, but their first response is lost."""
    hidden_programs: tuple[str, ...] = ()
    """Programs missing from the target."""
    delay = 0.0
    """Latency of a command in seconds."""

    async def start_target(self) -> None:
        self.is_lost = False
        self.directory = tempfile.mkdtemp(prefix="per-command-")
        self.dropped: set[str] = set()
        self.commands = 0
        self.texts: list[str] = []
        self.path = os.environ["PATH"]
        if self.hidden_programs:
            self.path = self._path_without(self.hidden_programs)

    def _path_without(self, hidden: tuple[str, ...]) -> str:
        programs = Path(self.directory, "programs")
        programs.mkdir()
        for folder in ("/usr/bin", "/bin"):
            for program in Path(folder).iterdir():
                link = programs / program.name
                if program.name not in hidden and not link.is_symlink():
                    link.symlink_to(program)
        return str(programs)

    async def run_once(self, text: str, timeout: float) -> CommandResult:
        await asyncio.sleep(self.delay)
        self.texts.append(text)
        result = await self._run(text, timeout)
        if self.drop_answers_of and self.drop_answers_of in text and text not in self.dropped:
            self.dropped.add(text)
            result = await self._run(text, timeout)
        return result

    async def _run(self, text: str, timeout: float) -> CommandResult:
        self.commands += 1
        if self.is_lost:
            raise TerminalError("the service does not answer")
        stream = ChildStream(["sh"], env={**os.environ, "TMPDIR": self.directory, "PATH": self.path})
        said = _Said()
        stream.start(said)
        try:
            stream.write(f"exec 2>&1; {{ {text}\n}} </dev/null".encode("utf-8", "surrogateescape"))
            stream.close_write()
            code = await stream.exit_code(timeout)
            if self.is_lost or not await done_within(stream.ended, timeout) or code is None:
                raise TerminalError("the service does not answer")
            return CommandResult(said.output.decode("utf-8", "replace"), code)
        finally:
            await stream.close()

    async def put_native(self, source: bytes | Path, path: str) -> None:
        if isinstance(source, bytes):
            Path(path).write_bytes(source)
        else:
            shutil.copyfile(source, path)

    async def fetch_native(self, path: str) -> AsyncGenerator[bytes, None]:
        try:
            with open(path, "rb") as source:
                while piece := source.read(PIECE):
                    yield piece
        except OSError as error:
            raise TerminalError(str(error)) from error

    def lose(self) -> None:
        """Kill all processes of the target. Commands fail until the next start."""
        self.is_lost = True
        for environment in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):
                if f"HERMES_COMMAND={self.id}/".encode() in environment.read_bytes():
                    os.kill(int(environment.parent.name), signal.SIGKILL)

    def target_loss(self) -> str | None:
        return "the service does not answer" if self.is_lost else None

    async def stop_target(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)
