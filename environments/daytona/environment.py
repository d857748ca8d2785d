"""Commands in a sandbox of Daytona.

The toolbox of a sandbox passes a command to a shell as its input, merges the streams, loses all bytes that are not
UTF-8, and on a time-out loses all output; its sessions hang on `exit`. So the toolbox gets only short internal commands
(see `PerCommandEnvironment`), files and terminals.
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
from environments.network.allow_list import service_lists
from environments.network.setting import Network
from environments.result import CommandResult
from environments.settings import EnvironmentSettings
from environments.shell.stream import Stream, Terminal
from environments.short_commands.sandbox import SandboxEnvironment
from environments.short_commands.service import Attempts
from environments.starting import Start, current_start
from environments.target import Address, Target

TOKEN_HEADER = "X-Daytona-Preview-Token"  # noqa: S105 - its name
"""The header with the token for a request to a port of a private sandbox."""
_END_OF_SCRIPT = "HERMES_END_OF_SCRIPT"

log = logger(__name__)


class DaytonaEnvironment(SandboxEnvironment[sdk.AsyncSandbox]):
    """Runs commands in a sandbox, see `SandboxEnvironment`. A sandbox with kept files is stopped at the end."""

    backend = "daytona"
    settings_class = DaytonaSettings
    service = service
    has_snapshots = True

    @classmethod
    def list_targets(cls) -> Iterable[FoundTarget]:
        return list_targets()

    # The sandbox.

    async def connect(self) -> None:
        self._client = await connect()

    async def create_sandbox(self, key: str | None) -> sdk.AsyncSandbox:
        # Names are unique. If an answer was lost, the retry finds the first sandbox by name.
        name = f"hermes-{secrets.token_hex(8)}"
        parameters = parameters_of(self.settings, name, key)
        start = current_start()
        await start.report_on_loop("creating a sandbox")
        remove = partial(self._remove_late, name)

        async def make() -> sdk.AsyncSandbox:
            try:
                if isinstance(parameters, sdk.CreateSandboxFromImageParams):
                    on_log = partial(_report_build_log, start)
                    return await self._client.create(parameters, timeout=START_TIMEOUT, on_snapshot_create_logs=on_log)
                return await self._client.create(parameters, timeout=START_TIMEOUT)
            except sdk.DaytonaConflictError:
                return await self._client.get(name)

        sandbox = await start.await_detachable(service.retry(make, "no sandbox can be created"), remove)
        try:
            await self.revive(sandbox)
        except asyncio.CancelledError:
            start.detach(remove())
            raise
        return sandbox

    async def _remove_late(self, name: str) -> None:
        """Delete a sandbox that was created after the end of its start."""
        with contextlib.suppress(sdk.DaytonaNotFoundError):
            find = partial(self._client.get, name)
            await end(await service.retry(find, "a sandbox cannot be looked for"), kept=False)

    async def change_network(self, sandbox: sdk.AsyncSandbox, network: Network) -> None:
        change = sandbox.update_network_settings
        if network in ("full", "none", ()):
            change = partial(change, network_block_all=network != "full")
        else:
            networks, names = service_lists("backend 'daytona': network", network)
            change = partial(change, network_allow_list=",".join(networks), domain_allow_list=",".join(names))
        await service.retry(change, "the network of a sandbox cannot be changed")

    async def find_kept(self, key: str) -> sdk.AsyncSandbox | None:
        query = sdk.ListSandboxesQuery(labels={KEPT: key})
        for sandbox in await service.retry(partial(listed, self._client, query), "sandboxes cannot be listed"):
            if state_of(sandbox) == "started":  # its last user was killed, and may have left processes running
                await sandbox.stop(timeout=END_TIMEOUT, force=True)
            if await self.revive(sandbox):
                labels = sandbox_labels(self.settings.task_id, key)
                await service.retry(partial(sandbox.set_labels, labels), "a sandbox cannot be labelled")
                return sandbox
        return None

    async def join_sandbox(self, name: str) -> sdk.AsyncSandbox:
        # A stopped sandbox is not started: it would have to be stopped again, and its other users are not visible here.
        try:
            sandbox = await service.retry(partial(self._client.get, name), "a sandbox cannot be looked for")
            state = await settled_state(sandbox)
        except sdk.DaytonaNotFoundError:
            raise EnvironmentStartError(
                f"backend 'daytona': there is no sandbox {name} to join; `daytona list` lists the sandboxes"
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
        # A sandbox in a recoverable error state is recovered, at most `attempts` times.
        try:
            state = await settled_state(sandbox)
            if state in STOPPED:
                await service.retry(partial(sandbox.start, timeout=START_TIMEOUT), "a sandbox cannot be started")
            elif state == "error" and sandbox.recoverable:
                recover = partial(sandbox.recover, timeout=START_TIMEOUT)
                await service.retry(recover, "a sandbox cannot be recovered")
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
                await service.retry(sandbox.refresh_data, "the state of a sandbox is unknown")
                if state_of(sandbox) == "error" and sandbox.recoverable:
                    return await self.revive(sandbox, attempts - 1)
            raise
        return state not in ("destroyed", "destroying")

    async def end_sandbox(self, sandbox: sdk.AsyncSandbox, key: str | None) -> None:
        try:
            await end(sandbox, kept=key is not None)
        except service.errors as error:
            log.warning("sandbox %s may still be there; `hermes-env gc` ends it: %s", sandbox.id, service.reason(error))

    async def take_snapshot(self, name: str | None) -> str:
        with service.call_errors("no snapshot can be taken"):
            return await snapshots.create(self._client, self.sandbox, name)

    async def drop_snapshot(self, snapshot: str) -> None:
        await self.connect()
        with service.call_errors(f"snapshot {snapshot} cannot be deleted"):
            await snapshots.delete(self._client, snapshot)

    def settings_on(self, snapshot: str) -> EnvironmentSettings:
        # The snapshot has limits of its own.
        settings = super().settings_on(snapshot)
        own = replace(DaytonaSettings.of(settings), snapshot=None)
        return replace(settings, own=own, container_cpu=None, container_memory=None, container_disk=None)

    def id_of(self, sandbox: sdk.AsyncSandbox) -> str:
        return str(sandbox.id)

    async def loss_of(self, sandbox: sdk.AsyncSandbox) -> str | None:
        await service.retry(sandbox.refresh_data, "the state of a sandbox is unknown")
        state = state_of(sandbox)
        if state == "snapshotting":  # a passing state
            state = await settled_state(sandbox)
        return None if state == "started" else f"sandbox {sandbox.id} is {state}"

    def kept_key(self) -> str:
        return key_of(self.settings)

    def describe_target(self, cwd: str) -> Target:
        sandbox = self.sandbox
        return Target("daytona", "sandbox", sandbox.id, sandbox.name, service_host(), ("daytona", "ssh", sandbox.id))

    def find_address(self, port: int) -> Address:
        # The port is reached by HTTPS only.
        self.ensure_started()
        sandbox = self.sandbox
        action = f"the address of port {port} is unknown"
        with service.start_errors(action):
            link = self.run_on_loop(lambda _: service.retry(partial(sandbox.get_preview_link, port), action))
        place = urlsplit(link.url)
        standard = 80 if place.scheme == "http" else 443
        headers = {TOKEN_HEADER: link.token} if link.token else {}
        return Address(place.hostname or "", place.port or standard, link.url.rstrip("/"), headers)

    async def run_once(self, text: str, timeout: float) -> CommandResult:
        # The toolbox runs zsh, bash or sh, the first it finds.
        script = f"/bin/sh <<'{_END_OF_SCRIPT}'\n{{ {text}\n}} </dev/null\n{_END_OF_SCRIPT}\n"
        run = partial(self.sandbox.process.exec, script, timeout=math.ceil(timeout))
        with service.call_errors("a command got no answer"):
            async with asyncio.timeout(timeout):
                answer = await service.retry(run, "a command got no answer")
        return CommandResult(answer.result, int(answer.exit_code))

    async def put_native(self, source: bytes | Path, path: str) -> None:
        data = source if isinstance(source, bytes) else str(source)
        with service.call_errors(f"{path} cannot be written"):
            await service.retry(partial(self.sandbox.fs.upload_file, data, path), f"{path} cannot be written")

    async def fetch_native(self, path: str) -> AsyncGenerator[bytes, None]:
        # After a fault the file is read from its start again, and the known part is skipped.
        files, action, sent = self.sandbox.fs, f"{path} cannot be read", 0
        attempts = Attempts(service, action)
        with service.call_errors(action):
            while True:
                known = sent
                try:
                    async for piece in await files.download_file_stream(path):
                        known -= len(piece)
                        if known < 0:
                            sent -= known
                            yield piece[known:]
                            known = 0
                except service.errors as error:
                    await attempts.failed(error)
                else:
                    return

    async def open_terminal(self, argv: Sequence[str], terminal: Terminal) -> Stream:
        with service.start_errors("no terminal can be opened"):
            return await open_terminal(self.sandbox, argv, terminal, self.scratch.put)


def _report_build_log(start: Start, line: str) -> None:
    """Report a line of an image's build log as progress."""
    if text := plain(line).strip():
        spawn(start.report_on_loop(f"building the image: {text}"))
