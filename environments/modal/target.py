"""The sandbox of one environment: created or found, asked for, kept or terminated."""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Coroutine, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import modal
from modal import exception

from environments.claim import SharedClaim
from environments.errors import EnvironmentStartError, UnsupportedError
from environments.found_target import CREATED, KEPT, OWNER, readable, sandbox_labels
from environments.log import logger
from environments.loop import in_worker
from environments.modal.kept import Kept, key_of
from environments.modal.sandbox import image, options, variables
from environments.modal.service import SERVICE_ERRORS, connect, reason, reported, retried
from environments.modal.settings import ModalSettings
from environments.owner import MARKER_VARIABLE
from environments.settings import EnvironmentSettings
from environments.starting import current_start
from environments.target import Address

if TYPE_CHECKING:
    from modal.container_process import ContainerProcess


SNAPSHOT_TIMEOUT = 300
"""Seconds a snapshot of a sandbox's files may take."""
OWN_COMMAND_TIMEOUT = 30
"""Seconds for a short command of our own that needs a process of its own."""

_END_PROCESSES = f"""\
for f in $(grep -zlsF -- "{MARKER_VARIABLE}=$1" /proc/[0-9]*/environ); do
  p=${{f%/environ}} && kill -s KILL "${{p#/proc/}}"
done"""

log = logger(__name__)


class ModalTarget:
    """A sandbox that is there from `start` to `stop`; after a loss, again from the next `start`.

    With `container_persistent` its files are kept as a snapshot, from which the next sandbox of the task starts. A
    sandbox that a killed process of this machine has left is then taken up again.

    Raises:
        SettingsError: A value of the settings is not understood.
        UnsupportedError: A limit is set that Modal does not hold.
    """

    def __init__(self, settings: EnvironmentSettings) -> None:
        self._settings = settings
        self._own = ModalSettings.of(settings)
        self._client: modal.Client | None = None
        self._sandbox: modal.Sandbox | None = None
        self._kept = Kept(key_of(settings)) if settings.container_persistent else None
        self._claim = SharedClaim[str](self._kept.claim_name) if self._kept else None
        self._variables = variables(self._own)

    @property
    def keeps_files(self) -> bool:
        """Whether the files outlive `stop`."""
        return self._kept is not None

    async def start(self) -> bool:
        """Bring the sandbox up, and return whether it is another one than before.

        Raises:
            EnvironmentStartError: It cannot be brought up.
        """
        await current_start().told("connecting to Modal")
        self._client = await connect()
        with reported("no sandbox can be started"):
            if self._sandbox and await self._still_runs(self._sandbox):
                return False
            await self._detach()
            name = self._own.app
            find = partial(modal.App.lookup.aio, name, create_if_missing=True, client=self._client)
            app = await retried(find, f"app {name} cannot be found")
            self._sandbox = await (self._shared(app, self._claim) if self._claim else self._create(app))
            return True

    async def _shared(self, app: modal.App, claim: SharedClaim[str]) -> modal.Sandbox:
        """Return a sandbox with what is kept: that of others in this process, of a killed process, or a new one."""
        found: list[modal.Sandbox] = []

        async def begin(others: str | None) -> str:
            sandbox = await self._running(others) if others else None
            sandbox = sandbox or await self._left_running(app)
            found.append(sandbox or await self._create(app))
            return found[0].object_id

        if await claim.joined(begin) is None:
            raise EnvironmentStartError(
                f"backend 'modal': the kept files of task {self._settings.task_id!r} are in use by another process; "
                "end that one, or set another task_id"
            )
        return found[0]

    async def _running(self, sandbox_id: str) -> modal.Sandbox | None:
        try:
            sandbox = await self._by_id(sandbox_id)
        except exception.NotFoundError:
            return None
        return sandbox if await self._still_runs(sandbox) else None

    async def _by_id(self, sandbox_id: str) -> modal.Sandbox:
        find = partial(modal.Sandbox.from_id.aio, sandbox_id, client=self._client)
        return await retried(find, f"sandbox {sandbox_id} cannot be found")

    def discard(self) -> Coroutine[Any, Any, None]:
        """Have no sandbox any more, as the start that made it did not come to its end. What is kept stays.

        Returns:
            What ends the sandbox. It may go on behind the start, as the next one makes another.
        """
        sandbox, self._sandbox = self._sandbox, None
        return self._end(sandbox, terminate=self._kept is None)

    async def _end(self, sandbox: modal.Sandbox | None, *, terminate: bool) -> None:
        if sandbox and terminate:
            await self._terminate(sandbox)
        if sandbox:
            try:
                await sandbox.detach.aio()  # type: ignore[no-untyped-call]  # of the client
            except SERVICE_ERRORS as error:
                log.debug("modal: the sandbox was not detached: %s", reason(error))

    @staticmethod
    async def _still_runs(sandbox: modal.Sandbox) -> bool:
        try:
            return await retried(sandbox.poll.aio, "the sandbox cannot be asked for") is None
        except exception.NotFoundError:
            return False

    async def _left_running(self, app: modal.App) -> modal.Sandbox | None:
        """Find the sandbox of a killed process, end what that was running there, and make it ours."""
        if self._kept is None:
            return None
        wanted = {KEPT: self._kept.key}

        async def find() -> list[modal.Sandbox]:
            listed = modal.Sandbox.list.aio(app_id=app.app_id, tags=wanted, client=self._client)
            return [sandbox async for sandbox in listed]

        for sandbox in await retried(find, "sandboxes cannot be listed"):
            before = await sandbox.get_tags.aio()
            owner, created = before.get(OWNER), before.get(CREATED)
            await sandbox.set_tags.aio({**self._tags(self._kept.key), **({CREATED: created} if created else {})})
            if owner:
                await self._run(sandbox, _END_PROCESSES, f"{owner}-")
            return sandbox
        return None

    def _tags(self, key: str | None) -> dict[str, str]:
        return {**sandbox_labels(self._settings.task_id, key), CREATED: f"{time.time():.0f}"}

    async def _create(self, app: modal.App) -> modal.Sandbox:
        snapshot = self._kept.snapshot if self._kept else None
        if snapshot and self._kept:
            try:
                return await self._create_from(app, modal.Image.from_id(snapshot, client=self._client))
            except exception.NotFoundError as error:
                log.warning("the kept files of task %s are gone: %s", self._settings.task_id, reason(error))
                self._kept.forget()
        return await self._create_from(app, image(self._own))

    async def _create_from(self, app: modal.App, image: modal.Image) -> modal.Sandbox:
        # Names are unique in an app: when an answer was lost, the second try finds what the first has made.
        name = f"hermes-{secrets.token_hex(12)}"
        wanted = options(self._settings)
        own = self._tags(self._kept.key if self._kept else None)
        create = partial(
            modal.Sandbox.create.aio, app=app, name=name, tags=own, image=image, client=self._client, **wanted
        )

        async def created() -> modal.Sandbox:
            try:
                return await create()
            except exception.AlreadyExistsError:
                return await modal.Sandbox.from_name.aio(self._own.app, name, client=self._client)

        start = current_start()
        await start.told("building the image, and creating a sandbox")
        return await start.made(retried(created, "no sandbox can be created"), partial(self._terminate_late, name))

    async def _terminate_late(self, name: str) -> None:
        """Terminate a sandbox that was created when nobody waited for it any more, if it was."""
        find = partial(modal.Sandbox.from_name.aio, self._own.app, name, client=self._client)
        with contextlib.suppress(exception.NotFoundError):
            await self._terminate(await retried(find, f"sandbox {name} cannot be looked for"))

    async def start_process(
        self,
        argv: Sequence[str],
        *,
        pty: bool = False,
        env: Mapping[str, str] | None = None,
        timeout: int | None = None,
    ) -> ContainerProcess[bytes]:
        """Start a process in the sandbox.

        Args:
            argv: The program and its arguments, at most 64 KiB.
            pty: Whether to give it a terminal.
            env: Variables of its own, beside those of the settings.
            timeout: Seconds until Modal ends it.

        Raises:
            EnvironmentStartError: It could not be started.
        """
        sandbox = self._there()
        own = [self._variables] if self._variables else []
        variables: dict[str, str | None] = dict(env or {})

        async def start() -> ContainerProcess[bytes]:
            return await sandbox.exec.aio(*argv, text=False, pty=pty, env=variables, secrets=own, timeout=timeout)

        with reported("no process can be started in the sandbox"):
            return await retried(start, "no process can be started")

    async def run(self, script: str, *arguments: str) -> None:
        """Run shell text of our own, as far as that can be done. What comes of it is not told."""
        if sandbox := self._sandbox:
            await self._run(sandbox, script, *arguments)

    @staticmethod
    async def _run(sandbox: modal.Sandbox, script: str, *arguments: str) -> None:
        argv = ["/bin/sh", "-c", script, "sh", *arguments]
        try:
            process = await sandbox.exec.aio(*argv, text=False, timeout=OWN_COMMAND_TIMEOUT)
            await process.wait.aio()
        except SERVICE_ERRORS as error:
            log.debug("modal: a command of our own failed: %s", reason(error))

    @property
    def id(self) -> str:
        """The id of the sandbox.

        Raises:
            EnvironmentStartError: There is none.
        """
        return self._there().object_id

    def _there(self) -> modal.Sandbox:
        sandbox = self._sandbox  # once, as another thread may take it away
        if sandbox is None:
            raise EnvironmentStartError("backend 'modal': there is no sandbox; it could not be started")
        return sandbox

    async def address(self, port: int) -> Address:
        """Return where a port of the sandbox can be reached: at Modal's end of a tunnel that it was created with.

        Raises:
            UnsupportedError: It was created without.
            EnvironmentStartError: The service does not say.
        """
        sandbox = self._there()
        with reported(f"port {port} cannot be asked for"):
            tunnels = await retried(sandbox.tunnels.aio, "the tunnels cannot be asked for")
        tunnel = tunnels.get(port)
        if tunnel is None:
            raise UnsupportedError(
                f"backend 'modal': sandbox {sandbox.object_id} was created without a tunnel to port {port}; "
                f"{self._how_to_have_it(port)}"
            )
        if tunnel.unencrypted_host:
            return Address(tunnel.unencrypted_host, tunnel.unencrypted_port)
        return Address(tunnel.host, tunnel.port, tunnel.url)

    def _how_to_have_it(self, port: int) -> str:
        return f"have {port} among modal_ports (TERMINAL_MODAL_PORTS)"

    async def loss(self) -> str | None:
        """Say why the sandbox is gone, or None while it is there."""
        sandbox = self._sandbox
        if sandbox is None:
            return "the environment was cleaned up"
        try:
            code = await retried(sandbox.poll.aio, "the sandbox cannot be asked for")
        except exception.NotFoundError:
            return f"sandbox {sandbox.object_id} is gone"
        except SERVICE_ERRORS as error:
            return f"the service does not answer: {reason(error)}"
        return None if code is None else f"sandbox {sandbox.object_id} has ended ({code}){self._why_ended()}"

    def _why_ended(self) -> str:
        limits = f"modal_sandbox_timeout of {self._own.sandbox_timeout} s"
        if self._own.idle_timeout:
            limits += f" and its modal_idle_timeout of {self._own.idle_timeout} s"
        return f"; it is ended at the latest by its {limits}"

    async def stop(self) -> None:
        """Terminate the sandbox. One that is kept ends with the last environment of this process, after a snapshot."""
        try:
            if self._claim and self._kept:
                await self._claim.left(partial(self._keep_and_end, self._kept))
            elif sandbox := self._sandbox:
                await self._terminate(sandbox)
        finally:
            await self._detach()

    async def _keep_and_end(self, kept: Kept, sandbox_id: str) -> None:
        sandbox = self._sandbox
        if sandbox is None or sandbox.object_id != sandbox_id:  # others have begun another since ours was lost
            try:
                sandbox = await self._by_id(sandbox_id)
            except SERVICE_ERRORS as error:
                log.warning("sandbox %s may still run; `hermes-env gc` ends it: %s", sandbox_id, reason(error))
                return
        if await self._keep_files(kept, sandbox):
            await self._terminate(sandbox)

    async def _keep_files(self, kept: Kept, sandbox: modal.Sandbox) -> bool:
        """Take a snapshot, and return whether the sandbox is needed no more."""
        try:
            if await self._still_runs(sandbox):
                take = partial(sandbox.snapshot_filesystem.aio, timeout=SNAPSHOT_TIMEOUT)
                taken = await retried(take, "no snapshot can be taken")
                await in_worker(kept.note, taken.object_id, readable(self._settings.task_id))
                await sandbox.set_tags.aio(self._tags(None))  # the next one is not to find it while it ends
        except SERVICE_ERRORS as error:
            log.warning(
                "the files of task %s could not be kept as a snapshot, so that sandbox %s still runs, and the next "
                "environment of the task takes it up: %s",
                self._settings.task_id,
                sandbox.object_id,
                reason(error),
            )
            return False
        return True

    @staticmethod
    async def _terminate(sandbox: modal.Sandbox) -> None:
        try:
            await retried(sandbox.terminate.aio, "the sandbox cannot be terminated")
        except exception.NotFoundError:
            pass
        except SERVICE_ERRORS as error:
            log.warning("sandbox %s may still run; `hermes-env gc` ends it: %s", sandbox.object_id, reason(error))

    async def _detach(self) -> None:
        sandbox, self._sandbox = self._sandbox, None
        await self._end(sandbox, terminate=False)
