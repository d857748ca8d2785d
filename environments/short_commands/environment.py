"""Environments on services that run short commands and move files, and have no duplex stream to a process.

The shells are the same as everywhere, and as warm; only their streams are made of commands and files of the target,
see `polled_stream`. A command of the session so costs one round trip, and the session keeps all that a shell keeps.
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
"""Seconds a command of our own may take: a service that answers at all does so by then."""

ANY_ID = "????????-[0-9]*-*-*"
"""A pattern of the shell for the id of an environment, see `Owner.mark`."""

# An earlier directory is there if the target was lost and came back with its files.
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
    """Everything but a few questions to the service: how to start and stop, run a short command, move a file."""

    has_duplex_streams = False
    """True if the service has turned out to have duplex streams, so that shells are made of those."""
    has_base64 = True
    is_fresh = False
    """True if the target was just made for this environment, so that scratch directories in it came with its image."""
    streams_lag = True
    has_reserve = False

    def __init__(self, settings: EnvironmentSettings) -> None:
        super().__init__(settings)
        self.files = NativeFiles(self)

    @classmethod
    def start_limits(cls, settings: EnvironmentSettings) -> StartLimits:
        """Return how fast targets should be started, see `BaseEnvironment`. To look at one is a call of the service."""
        return replace(super().start_limits(settings), look_interval=60.0)

    # What a backend answers, besides start_target, stop_target and target_loss.

    @abstractmethod
    async def run_once(self, text: str, timeout: float) -> CommandResult:
        """Run shell text in a POSIX shell of the target and wait for it, beside others.

        All that is run may be run twice without harm, so that a fault that may pass is tried again, also when it
        cannot be known whether the command has begun.

        Args:
            text: Shell text, which must not show in the target's process list.
            timeout: Seconds by which an answer must have come.

        Returns:
            The output, with standard error in it, and the exit code.

        Raises:
            TerminalError: No answer came.
        """

    @abstractmethod
    async def put_native(self, source: bytes | Path, path: str) -> None:
        """Write bytes, or a file of this machine, to a path of the target whose directory exists.

        Raises:
            TerminalError: It could not be written.
        """

    @abstractmethod
    def fetch_native(self, path: str) -> AsyncGenerator[bytes, None]:
        """Yield a file of the target, piece by piece.

        Raises:
            TerminalError: It could not be read.
        """

    async def get_native(self, path: str) -> bytes:
        """Return a file of the target."""
        return b"".join([piece async for piece in self.fetch_native(path)])

    async def open_terminal(self, argv: Sequence[str], terminal: Terminal) -> Stream:
        """Start a process on a terminal, see `PersistentShellEnvironment.open_stream`."""
        raise UnsupportedError(f"backend {self.settings.env!r} has no pty; start the command without one")

    # What follows from that.

    @property
    def capabilities(self) -> Capabilities:
        """What this backend can do here, see `BaseEnvironment`."""
        has_terminal = type(self).open_terminal is not PerCommandEnvironment.open_terminal
        return replace(
            super().capabilities, duplex=self.has_duplex_streams, pty=self.has_duplex_streams or has_terminal
        )

    @property
    def is_ready(self) -> bool:
        """Whether the target is still there. The service is asked, as no stream reports that it is gone."""
        return super().is_ready and self.run_on_loop(lambda _: self.shells.why_lost()) is None

    async def open_stream(self, argv: Sequence[str], terminal: Terminal | None = None) -> Stream:
        """Start a process in the target, see `StreamOpener`. Without a terminal it starts with the first write."""
        if terminal:
            return await self.open_terminal(argv, terminal)
        return PolledStream(self, await self.scratch.directory(), argv)

    @property
    def is_ending(self) -> bool:
        """Whether the target is about to be stopped with all that is in it."""
        return not self.life.is_open and self.stop_ends_all

    async def lost(self, why: str) -> EnvironmentLostError:
        """Return what to raise when the target is gone."""
        return self.shells.lost(await self.shells.why_lost() or why)

    async def ran_internal(self, text: str, timeout: float = CONTROL_TIMEOUT) -> tuple[str, int]:
        """Run an internal command, see `PersistentShellEnvironment`; as a short command it needs no shell."""
        if self.has_duplex_streams:
            return await super().ran_internal(text, timeout)
        try:
            result = await self.run_once(text, timeout)
        except TerminalError as error:
            raise await self.lost(str(error)) from error
        return result.output, result.exit_code

    def command_sent(self) -> None:
        """Prepare for the end of the command, see `PersistentShellEnvironment`; short commands need no preparation."""
        if self.has_duplex_streams:
            super().command_sent()

    async def make_scratch(self, name: str) -> str:
        """Make a private directory, see `PersistentShellEnvironment`, and see what the target has."""
        if self.has_duplex_streams:
            return await super().make_scratch(name)
        output, code = await self.ran_internal(_PREPARE.format(old=ANY_ID if self.is_fresh else self.id, name=name))
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
        """Write a file of ours, in a directory that is private."""
        if self.has_duplex_streams:
            await super().write_scratch(path, data)
        else:
            await self.put_native(data, path)
