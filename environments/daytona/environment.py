"""Commands in a sandbox of Daytona.

The toolbox of a sandbox feeds a command to a shell as its input, merges its streams, loses what is not UTF-8, and on a
time-out loses everything; its sessions hang on `exit`. So it is only asked for short commands of our own, see
`per_command`, and for files and terminals.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import secrets
from collections.abc import AsyncGenerator, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from environments.daytona import snapshots
from environments.daytona.listing import list_targets, listed
from environments.daytona.sandbox import (
    END_TIMEOUT,
    START_TIMEOUT,
    STOPPED,
    end,
    key_of,
    parameters_of,
    settled_state,
    state_of,
)
from environments.daytona.service import connect, sdk, service, service_host
from environments.daytona.settings import DaytonaSettings
from environments.daytona.terminal import open_terminal
from environments.errors import EnvironmentStartError
from environments.found_target import KEPT, FoundTarget, sandbox_labels
from environments.log import logger
from environments.loop import spawn
from environments.model_view import plain
from environments.network.rules import service_lists
from environments.network.setting import Network
from environments.result import CommandResult
from environments.settings import EnvironmentSettings
from environments.shell.stream import Stream, Terminal
from environments.short_commands.sandbox import SandboxEnvironment
from environments.short_commands.service import Attempts
from environments.starting import Start, current_start
from environments.target import Address, Target

TOKEN_HEADER = "X-Daytona-Preview-Token"  # noqa: S105 - its name
"""The header of a request to a port of a sandbox that is not public: its token."""
_END_OF_SCRIPT = "HERMES_END_OF_SCRIPT"

log = logger(__name__)


class DaytonaEnvironment(SandboxEnvironment[sdk.AsyncSandbox]):
    """Runs commands in a sandbox, see `SandboxEnvironment`. One whose files are kept is stopped in the end."""

    backend = "daytona"
    settings_class = DaytonaSettings
    service = service
    has_snapshots = True

    @classmethod
    def list_targets(cls) -> Iterable[FoundTarget]:
        """Go through our sandboxes, also those that are stopped, see `BaseEnvironment`."""
        return list_targets()

    # The sandbox.

    async def connect(self) -> None:
        """Connect to the service, see `SandboxEnvironment`."""
        self._client = await connect()

    async def create_sandbox(self, key: str | None) -> sdk.AsyncSandbox:
        """Create a sandbox, see `SandboxEnvironment`."""
        # Names are unique: when an answer was lost, the second try finds what the first has made.
        name = f"hermes-{secrets.token_hex(8)}"
        parameters = parameters_of(self.settings, name, key)
        start = current_start()
        await start.report_on_loop("creating a sandbox")
        remove = partial(self._remove_late, name)

        async def make() -> sdk.AsyncSandbox:
            try:
                if isinstance(parameters, sdk.CreateSandboxFromImageParams):
                    told = partial(_tell, start)
                    return await self._client.create(parameters, timeout=START_TIMEOUT, on_snapshot_create_logs=told)
                return await self._client.create(parameters, timeout=START_TIMEOUT)
            except sdk.DaytonaConflictError:
                return await self._client.get(name)

        sandbox = await start.await_detachable(service.retried(make, "no sandbox can be created"), remove)
        try:
            await self.revive(sandbox)
        except asyncio.CancelledError:
            start.detach(remove())
            raise
        return sandbox

    async def _remove_late(self, name: str) -> None:
        """Delete a sandbox that was created after its start had ended, if it was."""
        with contextlib.suppress(sdk.DaytonaNotFoundError):
            find = partial(self._client.get, name)
            await end(await service.retried(find, "a sandbox cannot be looked for"), kept=False)

    async def change_network(self, sandbox: sdk.AsyncSandbox, network: Network) -> None:
        """Have a sandbox reach other hosts, see `SandboxEnvironment`."""
        change = sandbox.update_network_settings
        if network in ("full", "none", ()):
            change = partial(change, network_block_all=network != "full")
        else:
            networks, names = service_lists("backend 'daytona': network", network)
            change = partial(change, network_allow_list=",".join(networks), domain_allow_list=",".join(names))
        await service.retried(change, "the network of a sandbox cannot be changed")

    async def find_kept(self, key: str) -> sdk.AsyncSandbox | None:
        """Return the sandbox that was kept for a key, see `SandboxEnvironment`."""
        query = sdk.ListSandboxesQuery(labels={KEPT: key})
        for sandbox in await service.retried(partial(listed, self._client, query), "sandboxes cannot be listed"):
            if state_of(sandbox) == "started":  # its last user was killed, and may have left commands running
                await sandbox.stop(timeout=END_TIMEOUT, force=True)
            if await self.revive(sandbox):
                labels = sandbox_labels(self.settings.task_id, key)
                await service.retried(partial(sandbox.set_labels, labels), "a sandbox cannot be labelled")
                return sandbox
        return None

    async def join_sandbox(self, name: str) -> sdk.AsyncSandbox:
        """Return another program's sandbox, which is neither started, labelled nor changed, see `SandboxEnvironment`.

        One that does not run is not started: it would have to be stopped again in the end, and whether others use it
        by then cannot be seen.
        """
        try:
            sandbox = await service.retried(partial(self._client.get, name), "a sandbox cannot be looked for")
            state = await settled_state(sandbox)
        except sdk.DaytonaNotFoundError:
            raise EnvironmentStartError(
                f"backend 'daytona': there is no sandbox {name} to join; `daytona list` lists those there are"
            ) from None
        if state in STOPPED:
            raise EnvironmentStartError(
                f"backend 'daytona' cannot join sandbox {name}: it is {state}; start it with `daytona start {name}`"
            )
        if state != "started":
            why = f": {sandbox.error_reason}" if sandbox.error_reason else ""
            raise EnvironmentStartError(f"backend 'daytona' cannot join sandbox {name}: it is in state {state}{why}")
        return sandbox

    async def revive(self, sandbox: sdk.AsyncSandbox, attempts: int = 2) -> bool:
        """Have a sandbox run, whatever state it is in, see `SandboxEnvironment`. One that breaks down is recovered."""
        try:
            state = await settled_state(sandbox)
            if state in STOPPED:
                await service.retried(partial(sandbox.start, timeout=START_TIMEOUT), "a sandbox cannot be started")
            elif state == "error" and sandbox.recoverable:
                recover = partial(sandbox.recover, timeout=START_TIMEOUT)
                await service.retried(recover, "a sandbox cannot be recovered")
            elif state not in ("started", "destroyed", "destroying"):
                why = sandbox.error_reason or "no reason"
                raise EnvironmentStartError(
                    f"backend 'daytona': sandbox {sandbox.id} is in state {state}: {why}; "
                    "delete it, or set another task_id"
                )
        except sdk.DaytonaNotFoundError:
            return False
        except sdk.DaytonaError:
            if attempts:
                await service.retried(sandbox.refresh_data, "the state of a sandbox is unknown")
                if state_of(sandbox) == "error" and sandbox.recoverable:
                    return await self.revive(sandbox, attempts - 1)
            raise
        return state not in ("destroyed", "destroying")

    async def end_sandbox(self, sandbox: sdk.AsyncSandbox, key: str | None) -> None:
        """Delete a sandbox, or stop it if it is kept, see `SandboxEnvironment`."""
        try:
            await end(sandbox, kept=key is not None)
        except service.errors as error:
            log.warning("sandbox %s may still be there; `hermes-env gc` ends it: %s", sandbox.id, service.reason(error))

    async def take_snapshot(self, name: str | None) -> str:
        """Have Daytona take a snapshot of the sandbox, see `PersistentShellEnvironment`."""
        with service.answered("no snapshot can be taken"):
            return await snapshots.take(self._client, self.sandbox, name)

    async def drop_snapshot(self, snapshot: str) -> None:
        """Delete the snapshot beneath a fork, see `PersistentShellEnvironment`."""
        await self.connect()
        with service.answered(f"snapshot {snapshot} cannot be deleted"):
            await snapshots.delete(self._client, snapshot)

    def settings_on(self, snapshot: str) -> EnvironmentSettings:
        """Return settings with a snapshot as the image, whose own limits hold."""
        settings = super().settings_on(snapshot)
        own = replace(DaytonaSettings.of(settings), snapshot=None)
        return replace(settings, own=own, container_cpu=None, container_memory=None, container_disk=None)

    def id_of(self, sandbox: sdk.AsyncSandbox) -> str:
        """Return the id of a sandbox, see `SandboxEnvironment`."""
        return str(sandbox.id)

    async def loss_of(self, sandbox: sdk.AsyncSandbox) -> str | None:
        """Return why a sandbox is lost, see `SandboxEnvironment`."""
        await service.retried(sandbox.refresh_data, "the state of a sandbox is unknown")
        state = state_of(sandbox)
        if state == "snapshotting":  # which it leaves for the state that it had
            state = await settled_state(sandbox)
        return None if state == "started" else f"sandbox {sandbox.id} is {state}"

    def kept_key(self) -> str:
        """Return the key of the task's kept sandbox, see `SandboxEnvironment`."""
        return key_of(self.settings)

    def describe_target(self, cwd: str) -> Target:
        """Describe the sandbox, see `PersistentShellEnvironment`."""
        sandbox = self.sandbox
        return Target("daytona", "sandbox", sandbox.id, sandbox.name, service_host(), ("daytona", "ssh", sandbox.id))

    def find_address(self, port: int) -> Address:
        """Return where a port of the sandbox can be reached, see `BaseEnvironment.address`: by HTTPS alone."""
        self.ensure_started()
        sandbox = self.sandbox
        what = f"port {port} cannot be asked for"
        with service.reported(what):
            link = self.run_on_loop(lambda _: service.retried(partial(sandbox.get_preview_link, port), what))
        place = urlsplit(link.url)
        standard = 80 if place.scheme == "http" else 443
        headers = {TOKEN_HEADER: link.token} if link.token else {}
        return Address(place.hostname or "", place.port or standard, link.url.rstrip("/"), headers)

    async def run_once(self, text: str, timeout: float) -> CommandResult:
        """Run shell text, see `PerCommandEnvironment`."""
        # The toolbox takes whichever of zsh, bash and sh it finds.
        script = f"/bin/sh <<'{_END_OF_SCRIPT}'\n{{ {text}\n}} </dev/null\n{_END_OF_SCRIPT}\n"
        run = partial(self.sandbox.process.exec, script, timeout=math.ceil(timeout))
        with service.answered("a command got no answer"):
            async with asyncio.timeout(timeout):
                answer = await service.retried(run, "a command got no answer")
        return CommandResult(answer.result, int(answer.exit_code))

    async def put_native(self, source: bytes | Path, path: str) -> None:
        """Write a file, see `PerCommandEnvironment`."""
        data = source if isinstance(source, bytes) else str(source)
        with service.answered(f"{path} cannot be written"):
            await service.retried(partial(self.sandbox.fs.upload_file, data, path), f"{path} cannot be written")

    async def fetch_native(self, path: str) -> AsyncGenerator[bytes, None]:
        """Read a file, see `PerCommandEnvironment`. After a fault it is fetched anew, without what came before."""
        files, what, there = self.sandbox.fs, f"{path} cannot be read", 0
        attempts = Attempts(service, what)
        with service.answered(what):
            while True:
                known = there
                try:
                    async for piece in await files.download_file_stream(path):
                        known -= len(piece)
                        if known < 0:
                            there -= known
                            yield piece[known:]
                            known = 0
                except service.errors as error:
                    await attempts.failed(error)
                else:
                    return

    async def open_terminal(self, argv: Sequence[str], terminal: Terminal) -> Stream:
        """Start a process on a terminal, see `StreamOpener`."""
        with service.reported("no terminal can be opened"):
            return await open_terminal(self.sandbox, argv, terminal, self.scratch.put)


def _tell(start: Start, line: str) -> None:
    """Pass on a line of the log of an image that is being built."""
    if text := plain(line).strip():
        spawn(start.report_on_loop(f"building the image: {text}"))
