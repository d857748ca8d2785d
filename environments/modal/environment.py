"""Commands in a sandbox of Modal, through its own client library."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import io
import itertools
import math
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from environments.cancellation import check_scope
from environments.errors import EnvironmentStartError, TerminalError
from environments.found_target import FoundTarget
from environments.log import logger
from environments.loop import in_worker
from environments.modal.joined import JoinedTarget
from environments.modal.listing import list_targets
from environments.modal.service import HOW_TO_LOG_IN, SERVICE_ERRORS, has_credentials, reason, service_host
from environments.modal.settings import ModalSettings
from environments.modal.stream import ModalStream
from environments.modal.target import ModalTarget
from environments.owner import MARKER_VARIABLE
from environments.result import Capabilities, CommandResult
from environments.settings import EnvironmentSettings
from environments.shell.environment import PersistentShellEnvironment
from environments.shell.files import ShellFiles
from environments.shell.stream import Stream, Terminal
from environments.shell.transfer import Runner
from environments.short_commands.environment import CONTROL_TIMEOUT, PerCommandEnvironment
from environments.starting import current_start
from environments.target import Address, Target

PROBE_TIMEOUT = 15
"""Seconds for a line of input to reach a process."""
PIECE = 64 * 1024
"""Bytes of a file that go into one variable, as base64: Linux allows a variable 128 KB."""

_PROBE = 'read -r line && [ "$line" = input ]'
# The client has no way to say how large a terminal is, or to change that later.
_SIZED = 'stty rows "$1" cols "$2" 2>/dev/null; shift 2; exec "$@"'
_RESIZE = f"""\
for f in $(grep -zlsF -- "{MARKER_VARIABLE}=$1" /proc/[0-9]*/environ); do
  stty rows "$2" cols "$3" <"${{f%/environ}}/fd/0" 2>/dev/null && exit
done"""
_TEXT = "HERMES_TEXT"
_RUN_TEXT = f'exec </dev/null 2>&1; set -- "${_TEXT}"; unset {_TEXT}; eval "$1"'
_PUT_PIECE = f'printf %s "${_TEXT}" | base64 -d >"$1"'
_JOIN_PIECES = 'n=0; : >"$1"; while [ -e "$1.$n" ]; do cat "$1.$n" >>"$1" && rm "$1.$n"; n=$((n+1)); done'

log = logger(__name__)


class ModalEnvironment(PerCommandEnvironment):
    """Runs commands in a sandbox of its own, which is terminated in the end; see `ModalTarget` for what is kept.

    The shells live on the streams of Modal's exec. Whether input reaches a process there is tried out first: where it
    does not, the shells are made of short commands, as in every `PerCommandEnvironment`.
    """

    backend = "modal"
    settings_class = ModalSettings

    def __init__(self, settings: EnvironmentSettings) -> None:
        super().__init__(settings)
        self._joins = ModalSettings.of(settings).sandbox is not None
        self._target = JoinedTarget(settings) if self._joins else ModalTarget(settings)
        self._duplex = True
        self._native_files = self.files

    @property
    def stop_ends_all(self) -> bool:
        """Whether nothing is left when it is stopped. A snapshot would have our files in it, as would what stays."""
        return not (self._target.keeps_files or self._joins)

    @property
    def enforced_limits(self) -> frozenset[str]:
        """Names of the limits that Modal holds commands to; none of ours, if the sandbox is somebody else's."""
        return frozenset() if self._joins else super().enforced_limits

    @classmethod
    def probe(cls, settings: EnvironmentSettings) -> str:
        """Look for credentials, without trying them, see `BaseEnvironment`."""
        if not has_credentials():
            raise EnvironmentStartError(f"backend 'modal' has no credentials: {HOW_TO_LOG_IN}")
        return "credentials"

    @classmethod
    def list_targets(cls) -> Iterable[FoundTarget]:
        """Go through the sandboxes of our app, and the snapshots that are kept, see `BaseEnvironment`."""
        return list_targets()

    @property
    def capabilities(self) -> Capabilities:
        """What this backend can do here, see `BaseEnvironment`."""
        found = super().capabilities
        return replace(found, duplex=self._duplex, pty=self._duplex)

    async def start_target(self) -> None:
        """Bring the sandbox up; after a loss, take up the one there was if it still runs."""
        if await self._target.start():
            try:
                self._duplex = await self._delivers_input()
            except asyncio.CancelledError:
                current_start().detach(self._target.discard())
                raise
            except BaseException:
                await self._target.discard()
                raise
            self.observation.target = ("sandbox", self._target.id)
            self.files = (
                ShellFiles(Runner(self), self.settings.env, self.progress) if self._duplex else self._native_files
            )
            self.streams_lag = not self._duplex

    async def _delivers_input(self) -> bool:
        process = await self._target.start_process(["/bin/sh", "-c", _PROBE], timeout=PROBE_TIMEOUT)
        try:
            process.stdin.write(b"input\n")
            await process.stdin.drain.aio()
            delivered: bool = await process.wait.aio() == 0
        except SERVICE_ERRORS as error:
            log.debug("modal: input could not be sent: %s", reason(error))
            return False
        if not delivered:
            log.warning("input does not reach processes in the sandbox; commands are run one by one, which is slower")
        return delivered

    async def stop_target(self) -> None:
        """Keep the files if they are to be kept, and terminate the sandbox."""
        await self._target.stop()

    async def target_loss(self) -> str | None:
        """Say why the sandbox is gone, see `PersistentShellEnvironment.target_loss`."""
        return await self._target.loss()

    def describe_target(self, cwd: str) -> Target:
        """Say which sandbox it is, see `PersistentShellEnvironment`."""
        sandbox = self._target.id
        return Target("modal", "sandbox", sandbox, "", service_host(), ("modal", "shell", sandbox))

    def find_address(self, port: int) -> Address:
        """Return where a port of the sandbox can be reached, see `BaseEnvironment.address`."""
        self.ensure_started()
        return self.run_on_loop(lambda _: self._target.address(port))

    # Over streams.

    async def open_stream(self, argv: Sequence[str], terminal: Terminal | None = None) -> Stream:
        """Start a process in the sandbox, see `StreamOpener`."""
        if not self._duplex:
            return await super().open_stream(argv, terminal)
        if terminal is None:
            return ModalStream(await self._target.start_process(argv))
        size = str(terminal.rows), str(terminal.columns)
        process = await self._target.start_process(["/bin/sh", "-c", _SIZED, "sh", *size, *argv], pty=True)
        return ModalStream(process, partial(self._resize, argv[-1]))

    async def _resize(self, marker: str, terminal: Terminal) -> None:
        await self._target.run(_RESIZE, marker, str(terminal.rows), str(terminal.columns))

    async def ran_internal(self, text: str, timeout: float = CONTROL_TIMEOUT) -> tuple[str, int]:
        """Run a command of our own, see `PersistentShellEnvironment`."""
        if self._duplex:
            return await PersistentShellEnvironment.ran_internal(self, text, timeout)
        return await super().ran_internal(text, timeout)

    def command_sent(self) -> None:
        """Have what ends commands ready, where that needs a shell."""
        if self._duplex:
            PersistentShellEnvironment.command_sent(self)

    async def make_scratch(self, name: str) -> str:
        """Make a private directory, see `PersistentShellEnvironment`."""
        if self._duplex:
            return await PersistentShellEnvironment.make_scratch(self, name)
        return await super().make_scratch(name)

    async def write_scratch(self, path: str, data: bytes) -> None:
        """Write a file of ours, see `PersistentShellEnvironment`."""
        if self._duplex:
            await PersistentShellEnvironment.write_scratch(self, path, data)
        else:
            await super().write_scratch(path, data)

    # By short commands, whose text travels as a variable: it would otherwise show in the process list.

    async def run_once(self, text: str, timeout: float) -> CommandResult:
        """Run shell text, see `PerCommandEnvironment`."""
        output, code = await self._ran(_RUN_TEXT, env={_TEXT: text}, timeout=timeout)
        return CommandResult(output.decode("utf-8", "surrogateescape"), code)

    async def put_native(self, source: bytes | Path, path: str) -> None:
        """Write a file in pieces, see `PerCommandEnvironment`."""
        pieces = _pieces(source)
        for number in itertools.count():
            check_scope()
            if not (piece := await in_worker(next, pieces, b"")):
                break
            env = {_TEXT: base64.b64encode(piece).decode()}
            _check((await self._ran(_PUT_PIECE, f"{path}.{number}", env=env))[1], "write", path)
        _check((await self._ran(_JOIN_PIECES, path))[1], "write", path)

    async def fetch_native(self, path: str) -> AsyncGenerator[bytes, None]:
        """Copy a file of the sandbox, see `PerCommandEnvironment`."""
        process = await self._target.start_process(["/bin/sh", "-c", 'exec cat -- "$1"', "sh", path])
        with _answered():
            async with contextlib.aclosing(process.stdout.__aiter__()) as pieces:
                async for piece in pieces:
                    yield piece
            code = await process.wait.aio()
        _check(code, "read", path)

    async def _ran(
        self, script: str, *arguments: str, env: Mapping[str, str] | None = None, timeout: float = PROBE_TIMEOUT
    ) -> tuple[bytes, int]:
        """Run a script of our own, and return its output and its exit code."""
        limit = math.ceil(timeout)
        process = await self._target.start_process(["/bin/sh", "-c", script, "sh", *arguments], env=env, timeout=limit)
        with _answered():
            output = b"".join([piece async for piece in process.stdout])
            code: int = await process.wait.aio()
        if code < 0:
            raise TerminalError(f"backend 'modal': a command gave no answer for {timeout:.0f} s")
        return output, code


@contextlib.contextmanager
def _answered() -> Iterator[None]:
    try:
        yield
    except SERVICE_ERRORS as error:
        raise TerminalError(f"backend 'modal': a command gave no answer: {reason(error)}") from error


def _check(code: int, verb: str, path: str) -> None:
    if code != 0:
        raise TerminalError(f"cannot {verb} {path} on backend 'modal': exit code {code}")


def _pieces(source: bytes | Path) -> Iterator[bytes]:
    with contextlib.ExitStack() as stack:
        file = io.BytesIO(source) if isinstance(source, bytes) else stack.enter_context(source.open("rb"))
        yield from iter(lambda: file.read(PIECE), b"")
