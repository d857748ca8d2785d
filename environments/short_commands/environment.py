"""Environments on services with short commands and file transfer, but no duplex stream to a process.

The shells are the same as on other backends, and equally warm. Only their streams are made of commands and files, see
`PolledStream`. A command of a session costs one round trip, and the session keeps its whole state.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from pathlib import Path

from environments.errors import EnvironmentLostError, EnvironmentStartError, TerminalError, UnsupportedError
from environments.result import Capabilities, CommandResult
from environments.settings import EnvironmentSettings
from environments.shell.environment import PersistentShellEnvironment
from environments.shell.stream import Stream, Terminal
from environments.short_commands.files import NativeFiles
from environments.short_commands.stream import PolledStream
from environments.starting import StartLimits

CONTROL_TIMEOUT = 30.0
"""Seconds for an internal command; a live service answers by then."""

ANY_ID = "????????-[0-9]*-*-*"
"""Shell pattern for the id of an environment, see `Owner.mark`."""

# An earlier directory remains if a lost target came back with its files.
_PREPARE = r"""
umask 077
for old in "${{TMPDIR:-/tmp}}"/hermes-{old}-*; do
  if [ "$old" != "${{TMPDIR:-/tmp}}/{name}" ]; then rm -rf "$old"; fi
done
d=${{TMPDIR:-/tmp}}/{name}
command -v mkfifo >/dev/null || {{ echo "there is no mkfifo"; exit 1; }}
[ -d "$d" ] || mkdir -m 700 -- "$d" || exit 1
if command -v base64 >/dev/null; then echo "@@base64"; fi
printf '@@%s' "$d"
"""


class PerCommandEnvironment(PersistentShellEnvironment):
    """An environment on a service; a subclass starts and stops the target, runs short commands and moves files."""

    has_duplex_streams = False
    """True if the service turned out to have duplex streams; shells then use these."""
    has_base64 = True
    is_fresh = False
    """True if the target is new. Scratch directories in it are then leftovers of its image."""
    streams_lag = True
    has_reserve = False

    def __init__(self, settings: EnvironmentSettings) -> None:
        super().__init__(settings)
        self.files = NativeFiles(self)

    @classmethod
    def start_limits(cls, settings: EnvironmentSettings) -> StartLimits:
        # A look at a target costs a call of the service.
        return replace(super().start_limits(settings), look_interval=60.0)

    # The part of a backend, besides start_target, stop_target and target_loss.

    @abstractmethod
    async def run_once(self, text: str, timeout: float) -> CommandResult:
        """Run shell text in a POSIX shell of the target, at the same time as others, and wait for its end.

        The text may run twice without harm. So a transient fault is retried, even if the command may have begun.

        Args:
            text: Shell text; must not show in the target's process list.
            timeout: Seconds for the answer.

        Returns:
            The output, with standard error merged in, and the exit code.

        Raises:
            TerminalError: There was no answer.
        """

    @abstractmethod
    async def put_native(self, source: bytes | Path, path: str) -> None:
        """Write bytes, or a file of this machine, to a path in an existing directory of the target.

        Raises:
            TerminalError: The write failed.
        """

    @abstractmethod
    def fetch_native(self, path: str) -> AsyncGenerator[bytes, None]:
        """Yield a file of the target, piece by piece.

        Raises:
            TerminalError: The read failed.
        """

    async def get_native(self, path: str) -> bytes:
        """Return a file of the target."""
        return b"".join([piece async for piece in self.fetch_native(path)])

    async def open_terminal(self, argv: Sequence[str], terminal: Terminal) -> Stream:
        """Start a process on a terminal, see `PersistentShellEnvironment.open_stream`."""
        raise UnsupportedError(f"backend {self.settings.env!r} has no pty; start the command without one")

    # The common part.

    @property
    def capabilities(self) -> Capabilities:
        has_terminal = type(self).open_terminal is not PerCommandEnvironment.open_terminal
        return replace(
            super().capabilities, duplex=self.has_duplex_streams, pty=self.has_duplex_streams or has_terminal
        )

    @property
    def is_ready(self) -> bool:
        # No stream reports the loss of the target, so the service is polled.
        return super().is_ready and self.run_on_loop(lambda _: self.shells.why_lost()) is None

    async def open_stream(self, argv: Sequence[str], terminal: Terminal | None = None) -> Stream:
        # Without a terminal, the process starts with the first write.
        if terminal:
            return await self.open_terminal(argv, terminal)
        return PolledStream(self, await self.scratch.directory(), argv)

    @property
    def is_ending(self) -> bool:
        """True if the target is about to be stopped with all its processes and files."""
        return not self.life.is_open and self.stop_ends_all

    async def lost(self, why: str) -> EnvironmentLostError:
        """Return the error for a lost target."""
        return self.shells.lost(await self.shells.why_lost() or why)

    async def run_internal(self, text: str, timeout: float = CONTROL_TIMEOUT) -> tuple[str, int]:
        # A short command needs no shell.
        if self.has_duplex_streams:
            return await super().run_internal(text, timeout)
        try:
            result = await self.run_once(text, timeout)
        except TerminalError as error:
            raise await self.lost(str(error)) from error
        return result.output, result.exit_code

    def command_sent(self) -> None:
        # Short commands need no preparation.
        if self.has_duplex_streams:
            super().command_sent()

    async def make_scratch(self, name: str) -> str:
        if self.has_duplex_streams:
            return await super().make_scratch(name)
        output, code = await self.run_internal(_PREPARE.format(old=ANY_ID if self.is_fresh else self.id, name=name))
        noise, _, path = output.rpartition("@@")
        if code != 0 or not path:
            raise EnvironmentStartError(
                f"backend {self.settings.env!r}: no shell can be kept in the target: {output.strip()}; "
                "commands need a writable directory there (TMPDIR, else /tmp) and mkfifo"
            )
        self.is_fresh = False
        self.has_base64 = "@@base64" in noise
        return path

    async def write_scratch(self, path: str, data: bytes) -> None:
        if self.has_duplex_streams:
            await super().write_scratch(path, data)
        else:
            await self.put_native(data, path)
