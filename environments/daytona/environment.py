"""Commands in a sandbox of Daytona.

The toolbox of a sandbox feeds a command to a shell as its input, merges its streams, loses what is not UTF-8, and on a
time-out loses everything; its sessions hang on `exit`. So it is only asked for short commands of our own, see
`per_command`, and for files and terminals.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from environments.claim import SharedClaim
from environments.daytona.joined import join
from environments.daytona.listing import list_targets, listed
from environments.daytona.sandbox import END_TIMEOUT, claim_name, create, end, key_of, make_ready, state_of
from environments.daytona.service import (
    HOW_TO_LOG_IN,
    SERVICE_ERRORS,
    connect,
    has_credentials,
    reason,
    reported,
    retried,
    sdk,
    service_host,
)
from environments.daytona.settings import DaytonaSettings
from environments.daytona.terminal import open_terminal
from environments.errors import EnvironmentStartError, TerminalError
from environments.found_target import KEPT, FoundTarget, sandbox_labels
from environments.log import logger
from environments.result import CommandResult
from environments.settings import EnvironmentSettings
from environments.shell.stream import Stream, Terminal
from environments.short_commands.environment import PerCommandEnvironment
from environments.starting import current_start
from environments.target import Address, Target

TOKEN_HEADER = "X-Daytona-Preview-Token"  # noqa: S105 - its name
"""What a request for a port of a sandbox that is not public says it is allowed by."""
_END_OF_SCRIPT = "HERMES_END_OF_SCRIPT"

log = logger(__name__)


class DaytonaEnvironment(PerCommandEnvironment):
    """Runs commands in a sandbox of its own, which is deleted in the end, or stopped if `container_persistent`."""

    backend = "daytona"
    settings_class = DaytonaSettings

    def __init__(self, settings: EnvironmentSettings) -> None:
        super().__init__(settings)
        self._joins = DaytonaSettings.of(settings).sandbox
        self._sandbox: sdk.AsyncSandbox | None = None
        self._claim: SharedClaim[sdk.AsyncSandbox] | None = None

    @property
    def stop_ends_all(self) -> bool:
        """Whether the sandbox, with all that runs in it, is gone when it is stopped."""
        return not (self.settings.container_persistent or self._joins)

    @property
    def enforced_limits(self) -> frozenset[str]:
        """Names of the limits that Daytona holds commands to; none of ours, if the sandbox is somebody else's."""
        return frozenset() if self._joins else super().enforced_limits

    @classmethod
    def probe(cls, settings: EnvironmentSettings) -> str:
        """Look for credentials, without trying them, see `BaseEnvironment`."""
        if not has_credentials():
            raise EnvironmentStartError(f"backend 'daytona' has no credentials: {HOW_TO_LOG_IN}")
        return "credentials"

    @classmethod
    def list_targets(cls) -> Iterable[FoundTarget]:
        """Go through our sandboxes, also those that are stopped, see `BaseEnvironment`."""
        return list_targets()

    async def start_target(self) -> None:
        """Create a sandbox, or take up one: that which was kept, or after a loss the one there was, if it still exists.

        Somebody else's is looked up by its name each time.
        """
        await current_start().told("connecting to Daytona")
        service = await connect()
        if self._joins:
            with reported("no sandbox can be joined"):
                self._sandbox = await join(service, self._joins)
        else:
            with reported("no sandbox can be started"):
                if self._sandbox and await make_ready(self._sandbox):
                    return
                key = key_of(self.settings) if self.settings.container_persistent else None
                self._sandbox = await (self._shared(service, key) if key else create(service, self.settings, None))
        self.observation.target = ("sandbox", self._sandbox.id)

    async def _shared(self, service: sdk.AsyncDaytona, key: str) -> sdk.AsyncSandbox:
        """Return a sandbox that is kept for the task: that of others in this process, an earlier one, or a new one."""

        async def begin(others: sdk.AsyncSandbox | None) -> sdk.AsyncSandbox:
            if others and await make_ready(others):
                return others
            return await self._find_kept(service, key) or await create(service, self.settings, key)

        self._claim = self._claim or SharedClaim(claim_name(key))
        sandbox = await self._claim.joined(begin)
        if sandbox is None:
            raise EnvironmentStartError(
                f"backend 'daytona': the kept sandbox of task {self.settings.task_id!r} is in use by another process; "
                "end that one, or set another task_id"
            )
        return sandbox

    async def _find_kept(self, service: sdk.AsyncDaytona, key: str) -> sdk.AsyncSandbox | None:
        """Find the sandbox that an earlier environment kept for the same task, made in the same way."""
        query = sdk.ListSandboxesQuery(labels={KEPT: key})
        for sandbox in await retried(partial(listed, service, query), "sandboxes cannot be listed"):
            if await self._take_over(sandbox, key):
                return sandbox
        return None

    async def _take_over(self, sandbox: sdk.AsyncSandbox, key: str) -> bool:
        if state_of(sandbox) == "started":  # its last user was killed, and may have left commands running
            await sandbox.stop(timeout=END_TIMEOUT, force=True)
        if not await make_ready(sandbox):
            return False
        own = sandbox_labels(self.settings.task_id, key)
        await retried(partial(sandbox.set_labels, own), "a sandbox cannot be labelled")
        return True

    def _target(self) -> sdk.AsyncSandbox:
        sandbox = self._sandbox  # once, as another thread may take it away
        if sandbox is None:
            raise EnvironmentStartError("backend 'daytona': there is no sandbox; it could not be started")
        return sandbox

    def describe_target(self, cwd: str) -> Target:
        """Say which sandbox it is, see `PersistentShellEnvironment`."""
        sandbox = self._target()
        return Target("daytona", "sandbox", sandbox.id, sandbox.name, service_host(), ("daytona", "ssh", sandbox.id))

    def find_address(self, port: int) -> Address:
        """Return where a port of the sandbox can be reached, see `BaseEnvironment.address`: by HTTPS alone."""
        self.ensure_started()
        sandbox = self._target()
        what = f"port {port} cannot be asked for"
        with reported(what):
            link = self.run_on_loop(lambda _: retried(partial(sandbox.get_preview_link, port), what))
        place = urlsplit(link.url)
        standard = 80 if place.scheme == "http" else 443
        headers = {TOKEN_HEADER: link.token} if link.token else {}
        return Address(place.hostname or "", place.port or standard, link.url.rstrip("/"), headers)

    async def run_once(self, text: str, timeout: float) -> CommandResult:
        """Run shell text, see `PerCommandEnvironment`."""
        # The toolbox takes whichever of zsh, bash and sh it finds.
        script = f"/bin/sh <<'{_END_OF_SCRIPT}'\n{{ {text}\n}} </dev/null\n{_END_OF_SCRIPT}\n"
        run = partial(self._target().process.exec, script, timeout=math.ceil(timeout))
        with _answered("a command got no answer"):
            async with asyncio.timeout(timeout):
                answer = await retried(run, "a command got no answer")
        return CommandResult(answer.result, int(answer.exit_code))

    async def put_native(self, source: bytes | Path, path: str) -> None:
        """Write a file, see `PerCommandEnvironment`."""
        data = source if isinstance(source, bytes) else str(source)
        with _answered(f"{path} cannot be written"):
            await retried(partial(self._target().fs.upload_file, data, path), f"{path} cannot be written")

    async def fetch_native(self, path: str) -> AsyncGenerator[bytes, None]:
        """Read a file, see `PerCommandEnvironment`. After a fault it is fetched anew, without what came before."""
        files, what, there = self._target().fs, f"{path} cannot be read", 0
        attempts = retried.attempts(what)
        with _answered(what):
            while True:
                known = there
                try:
                    async for piece in await files.download_file_stream(path):
                        known -= len(piece)
                        if known < 0:
                            there -= known
                            yield piece[known:]
                            known = 0
                except SERVICE_ERRORS as error:
                    await attempts.failed(error)
                else:
                    return

    async def open_terminal(self, argv: Sequence[str], terminal: Terminal) -> Stream:
        """Start a process on a terminal, see `StreamOpener`."""
        with reported("no terminal can be opened"):
            return await open_terminal(self._target(), argv, terminal, self.scratch.put)

    async def target_loss(self) -> str | None:
        """Say why the sandbox is of no use any more, see `PersistentShellEnvironment.target_loss`."""
        sandbox = self._sandbox
        if sandbox is None:
            return "the environment was cleaned up"
        try:
            await retried(sandbox.refresh_data, "the state of a sandbox is unknown")
        except sdk.DaytonaNotFoundError:
            return f"sandbox {sandbox.id} was deleted"
        except SERVICE_ERRORS as error:
            return reason(error)
        state = state_of(sandbox)
        return None if state == "started" else f"sandbox {sandbox.id} is {state}"

    async def stop_target(self) -> None:
        """Delete the sandbox, or stop it if it is kept and no other environment of this process has it.

        Somebody else's goes on as it did before.
        """
        sandbox, self._sandbox = self._sandbox, None
        if self._claim:
            await self._claim.left(self._end)
        elif sandbox is not None and not self._joins:
            await self._end(sandbox)

    async def _end(self, sandbox: sdk.AsyncSandbox) -> None:
        try:
            await end(sandbox, kept=self.settings.container_persistent)
        except SERVICE_ERRORS as error:
            log.warning("sandbox %s may still be there; `hermes-env gc` ends it: %s", sandbox.id, reason(error))


@contextlib.contextmanager
def _answered(what: str) -> Iterator[None]:
    try:
        yield
    except SERVICE_ERRORS as error:
        raise TerminalError(f"backend 'daytona': {what}: {reason(error)}") from None
