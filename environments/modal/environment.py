"""Commands in a sandbox of Modal, through its client library."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import io
import itertools
import math
from collections.abc import AsyncGenerator, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import modal
from modal import exception

from environments.cancellation import check_scope
from environments.errors import EnvironmentStartError, TerminalError, UnsupportedError
from environments.found_target import CREATED, KEPT, OWNER, FoundTarget, readable
from environments.log import logger
from environments.loop import in_worker
from environments.modal.listing import list_targets
from environments.modal.sandbox import (
    KEPT_TTL,
    allow_lists,
    create,
    detach,
    image,
    is_running,
    key_of,
    tags,
    take_snapshot,
    terminate,
)
from environments.modal.service import connect, service, service_host
from environments.modal.settings import ModalSettings
from environments.modal.snapshots import Snapshot, delete_image
from environments.modal.stream import ModalStream
from environments.network.setting import Network
from environments.owner import MARKER_VARIABLE
from environments.result import CommandResult
from environments.settings import EnvironmentSettings
from environments.shell.files import ShellFiles
from environments.shell.stream import Stream, Terminal
from environments.shell.transfer import Runner
from environments.short_commands.environment import ANY_ID
from environments.short_commands.sandbox import SandboxEnvironment
from environments.starting import current_start
from environments.target import Address, Target

if TYPE_CHECKING:
    from modal.container_process import ContainerProcess

PROBE_TIMEOUT = 15
"""Seconds for a line of input to reach a process."""
PIECE = 64 * 1024
"""Bytes of a file in one variable, as base64: Linux allows 128 KB a variable."""

OWN_COMMAND_TIMEOUT = 30
"""Seconds for an internal command without a result."""

_CLEAN = f'rm -rf -- "${{TMPDIR:-/tmp}}"/hermes-{ANY_ID}; '
_PROBE = 'read -r line && [ "$line" = input ]'
# The client cannot give the size of a terminal at its start, nor change the size later.
_WITH_SIZE = 'stty rows "$1" cols "$2" 2>/dev/null; shift 2; exec "$@"'
_RESIZE = f"""\
for f in $(grep -zlsF -- "{MARKER_VARIABLE}=$1" /proc/[0-9]*/environ); do
  stty rows "$2" cols "$3" <"${{f%/environ}}/fd/0" 2>/dev/null && exit
done"""
_END_PROCESSES = f"""\
for f in $(grep -zlsF -- "{MARKER_VARIABLE}=$1" /proc/[0-9]*/environ); do
  p=${{f%/environ}} && kill -s KILL "${{p#/proc/}}"
done"""
_TEXT = "HERMES_TEXT"
_RUN_TEXT = f'exec </dev/null 2>&1; set -- "${_TEXT}"; unset {_TEXT}; eval "$1"'
_PUT_PIECE = f'printf %s "${_TEXT}" | base64 -d >"$1"'
_JOIN_PIECES = 'n=0; : >"$1"; while [ -e "$1.$n" ]; do cat "$1.$n" >>"$1" && rm "$1.$n"; n=$((n+1)); done'

log = logger(__name__)


class ModalEnvironment(SandboxEnvironment[modal.Sandbox]):
    """Runs commands in a sandbox, see `SandboxEnvironment`. Kept files are a snapshot; the next sandbox starts from it.

    The shells use the streams of Modal's exec. Each start checks whether input reaches a process. If not, the shells
    are made of short commands, as in every `PerCommandEnvironment`.
    """

    backend = "modal"
    settings_class = ModalSettings
    service = service
    has_snapshots = True

    def __init__(self, settings: EnvironmentSettings) -> None:
        super().__init__(settings)
        self._own = ModalSettings.of(settings)
        variables: dict[str, str | None] = {**self._own.target_variables()}
        self._variables = [modal.Secret.from_dict(variables)] if variables else []
        """Variables of all processes in the sandbox; no part of its description."""
        self.has_duplex_streams = True
        self._probed_sandbox: modal.Sandbox | None = None
        """The sandbox that `has_duplex_streams` was checked for."""
        self._native_files = self.files
        self._shell_files = ShellFiles(Runner(self), settings.env, self.progress)

    @classmethod
    def list_targets(cls) -> Iterable[FoundTarget]:
        return list_targets()

    # The sandbox.

    async def start_target(self) -> None:
        # A start also checks whether input reaches the sandbox's processes.
        before = self._sandbox
        await super().start_target()
        if before and self._joined:
            await detach(before)
        if self._sandbox is self._probed_sandbox:
            return
        try:
            self.has_duplex_streams = await self._delivers_input()
        except asyncio.CancelledError:
            current_start().detach(self._discard())
            raise
        except BaseException:
            await self._discard()
            raise
        self._probed_sandbox, self.is_fresh = self._sandbox, False
        self.files = self._shell_files if self.has_duplex_streams else self._native_files
        self.streams_lag = not self.has_duplex_streams

    async def _delivers_input(self) -> bool:
        process = await self._start_process(
            ["/bin/sh", "-c", f"{_CLEAN if self.is_fresh else ''}{_PROBE}"], timeout=PROBE_TIMEOUT
        )
        try:
            process.stdin.write(b"input\n")
            await process.stdin.drain.aio()
            delivered: bool = await process.wait.aio() == 0
        except service.errors as error:
            log.debug("modal: input could not be sent: %s", service.reason(error))
            return False
        if not delivered:
            log.warning("input does not reach processes in the sandbox; commands are run one by one, which is slower")
        return delivered

    def _discard(self) -> Coroutine[Any, Any, None]:
        """Return a coroutine that ends the sandbox of a failed start.

        It may run on after the start, as the next start creates another sandbox. A sandbox with kept files is ended
        later, by `stop_target`.
        """
        sandbox, self._sandbox = self._sandbox, None
        return self._end_discarded(sandbox)

    async def _end_discarded(self, sandbox: modal.Sandbox | None) -> None:
        if sandbox and self._joined:
            await detach(sandbox)
        elif sandbox and not self._claim:
            await self.end_sandbox(sandbox, None)

    async def connect(self) -> None:
        # The sandboxes are created in an app.
        self._client = await connect()
        if not self._joined:
            name = self._own.app
            find = partial(modal.App.lookup.aio, name, create_if_missing=True, client=self._client)
            self._app = await service.retry(find, f"app {name} cannot be found")

    async def change_network(self, sandbox: modal.Sandbox, network: Network) -> None:
        networks, names = allow_lists(() if network == "none" else network)
        change = sandbox._experimental_set_outbound_network_policy.aio
        lists = {"outbound_cidr_allowlist": networks, "outbound_domain_allowlist": names}
        await service.retry(partial(change, **lists), "the network of a sandbox cannot be changed")

    async def create_sandbox(self, key: str | None) -> modal.Sandbox:
        # A snapshot of kept files replaces the image.
        kept = Snapshot(key) if key else None
        if kept and (snapshot := kept.image):
            try:
                start_from = modal.Image.from_id(snapshot, client=self._client)
                return await create(self._client, self._app, self.settings, start_from, key)
            except exception.NotFoundError as error:
                log.warning("the kept files of task %s are gone: %s", self.settings.task_id, service.reason(error))
                kept.remove()
        return await create(self._client, self._app, self.settings, image(self._own), key)

    async def find_kept(self, key: str) -> modal.Sandbox | None:
        # The sandbox belonged to a killed process: its commands are ended.

        async def find() -> list[modal.Sandbox]:
            listed = modal.Sandbox.list.aio(app_id=self._app.app_id, tags={KEPT: key}, client=self._client)
            return [sandbox async for sandbox in listed]

        for sandbox in await service.retry(find, "sandboxes cannot be listed"):
            before = await sandbox.get_tags.aio()
            created = {CREATED: before[CREATED]} if CREATED in before else {}
            await sandbox.set_tags.aio({**tags(self.settings, key), **created})
            if OWNER in before:
                await self._run_and_log(sandbox, _END_PROCESSES, f"{before[OWNER]}-")
            return sandbox
        return None

    async def join_sandbox(self, name: str) -> modal.Sandbox:
        # Another program's sandbox gets no tags.
        find = partial(modal.Sandbox.from_id.aio, name, client=self._client)
        try:
            sandbox = await service.retry(find, f"sandbox {name} cannot be found")
            code = await service.retry(sandbox.poll.aio, "the state of the sandbox is unknown")
        except exception.NotFoundError:
            raise EnvironmentStartError(
                f"backend 'modal': there is no sandbox {name} to join; `modal container list` lists the running ones"
            ) from None
        if code is not None:
            raise EnvironmentStartError(
                f"backend 'modal' cannot join sandbox {name}: it has ended ({code}), and cannot be restarted; "
                "create another sandbox"
            )
        return sandbox

    async def leave_sandbox(self, sandbox: modal.Sandbox) -> None:
        await detach(sandbox)

    async def revive(self, sandbox: modal.Sandbox) -> bool:
        # An ended sandbox cannot be restarted.
        if await is_running(sandbox):
            return True
        if not self._claim:  # else other environments may still poll it
            await detach(sandbox)
        return False

    async def end_sandbox(self, sandbox: modal.Sandbox, key: str | None) -> None:
        # Kept files become a snapshot first.
        try:
            if key is None or await self._keep_files(Snapshot(key), sandbox):
                await terminate(sandbox)
        finally:
            await detach(sandbox)

    async def _keep_files(self, kept: Snapshot, sandbox: modal.Sandbox) -> bool:
        """Take a snapshot of the kept files. Returns True if the sandbox may be terminated."""
        try:
            if await is_running(sandbox):
                taken = await take_snapshot(sandbox, KEPT_TTL)
                await in_worker(kept.store, taken.object_id, readable(self.settings.task_id))
                await sandbox.set_tags.aio(tags(self.settings, None))  # hides it from the next start while it ends
        except service.errors as error:
            log.warning(
                "the files of task %s could not be kept as a snapshot; sandbox %s keeps running for the next "
                "environment of the task: %s",
                self.settings.task_id,
                sandbox.object_id,
                service.reason(error),
            )
            return False
        return True

    async def take_snapshot(self, name: str | None) -> str:
        with service.call_errors("no snapshot can be taken"):
            taken = (await take_snapshot(self.sandbox, KEPT_TTL if name is None else None)).object_id
        note = Snapshot.of_fork(taken) if name is None else Snapshot.named(name)
        earlier = note.image
        await in_worker(note.store, taken, readable(self.settings.task_id))
        if earlier:
            try:
                await delete_image(earlier)
            except TerminalError as error:
                log.warning("the replaced snapshot %s may still exist: %s", earlier, error)
        return taken

    async def drop_snapshot(self, snapshot: str) -> None:
        await delete_image(snapshot)
        await in_worker(Snapshot.of_fork(snapshot).remove)

    def settings_on(self, snapshot: str) -> EnvironmentSettings:
        # The snapshot has the Dockerfile lines already.
        settings = super().settings_on(snapshot)
        return replace(settings, own=replace(ModalSettings.of(settings), dockerfile_commands=()))

    def id_of(self, sandbox: modal.Sandbox) -> str:
        return sandbox.object_id

    async def loss_of(self, sandbox: modal.Sandbox) -> str | None:
        code = await service.retry(sandbox.poll.aio, "the state of the sandbox is unknown")
        if code is None:
            return None
        why = "" if self._joined else f"; its life is limited by its {self._limits_of_life()}"
        return f"sandbox {sandbox.object_id} has ended ({code}){why}"

    def _limits_of_life(self) -> str:
        idle = f" and its idle_timeout of {self._own.idle_timeout} s" if self._own.idle_timeout else ""
        return f"sandbox_timeout of {self._own.sandbox_timeout} s{idle}"

    def kept_key(self) -> str:
        return key_of(self.settings)

    def describe_target(self, cwd: str) -> Target:
        sandbox = self.sandbox.object_id
        return Target("modal", "sandbox", sandbox, "", service_host(), ("modal", "shell", sandbox))

    def find_address(self, port: int) -> Address:
        # The address is Modal's end of the tunnel to the sandbox.
        self.ensure_started()
        sandbox, action = self.sandbox, f"the address of port {port} is unknown"
        with service.start_errors(action):
            tunnel = self.run_on_loop(lambda _: service.retry(sandbox.tunnels.aio, action)).get(port)
        if tunnel is None:
            remedy = (
                f"create it with encrypted_ports=[{port}]"
                if self._joined
                else f"add {port} to ports (TERMINAL_MODAL_PORTS)"
            )
            raise UnsupportedError(
                f"backend 'modal': sandbox {sandbox.object_id} was created without a tunnel to port {port}; {remedy}"
            )
        if tunnel.unencrypted_host:
            return Address(tunnel.unencrypted_host, tunnel.unencrypted_port)
        return Address(tunnel.host, tunnel.port, tunnel.url)

    # Processes.

    async def _start_process(
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
            pty: True for a terminal.
            env: Variables beside those of the settings.
            timeout: Seconds until Modal ends the process.

        Raises:
            EnvironmentStartError: The process could not be started.
        """
        sandbox = self.sandbox
        variables: dict[str, str | None] = dict(env or {})

        async def start() -> ContainerProcess[bytes]:
            return await sandbox.exec.aio(
                *argv, text=False, pty=pty, env=variables, secrets=self._variables, timeout=timeout
            )

        with service.start_errors("no process can be started in the sandbox"):
            return await service.retry(start, "no process can be started")

    @staticmethod
    async def _run_and_log(sandbox: modal.Sandbox, script: str, *arguments: str) -> None:
        """Run an internal script. A failure is logged."""
        argv = ["/bin/sh", "-c", script, "sh", *arguments]
        try:
            process = await sandbox.exec.aio(*argv, text=False, timeout=OWN_COMMAND_TIMEOUT)
            await process.wait.aio()
        except service.errors as error:
            log.debug("modal: an internal command failed: %s", service.reason(error))

    # Over streams.

    async def open_stream(self, argv: Sequence[str], terminal: Terminal | None = None) -> Stream:
        if not self.has_duplex_streams:
            return await super().open_stream(argv, terminal)
        if terminal is None:
            return ModalStream(await self._start_process(argv))
        size = str(terminal.rows), str(terminal.columns)
        process = await self._start_process(["/bin/sh", "-c", _WITH_SIZE, "sh", *size, *argv], pty=True)
        return ModalStream(process, partial(self._resize, argv[-1]))

    async def _resize(self, marker: str, terminal: Terminal) -> None:
        if sandbox := self._sandbox:
            await self._run_and_log(sandbox, _RESIZE, marker, str(terminal.rows), str(terminal.columns))

    # By short commands. Their text is passed as a variable, since arguments show in the process list.

    async def run_once(self, text: str, timeout: float) -> CommandResult:
        output, code = await self._run_script(_RUN_TEXT, env={_TEXT: text}, timeout=timeout)
        return CommandResult(output.decode("utf-8", "surrogateescape"), code)

    async def put_native(self, source: bytes | Path, path: str) -> None:
        pieces = _pieces(source)
        for number in itertools.count():
            check_scope()
            if not (piece := await in_worker(next, pieces, b"")):
                break
            env = {_TEXT: base64.b64encode(piece).decode()}
            _check((await self._run_script(_PUT_PIECE, f"{path}.{number}", env=env))[1], "write", path)
        _check((await self._run_script(_JOIN_PIECES, path))[1], "write", path)

    async def fetch_native(self, path: str) -> AsyncGenerator[bytes, None]:
        process = await self._start_process(["/bin/sh", "-c", 'exec cat -- "$1"', "sh", path])
        with service.call_errors("a command gave no answer"):
            async with contextlib.aclosing(process.stdout.__aiter__()) as pieces:
                async for piece in pieces:
                    yield piece
            code = await process.wait.aio()
        _check(code, "read", path)

    async def _run_script(
        self, script: str, *arguments: str, env: Mapping[str, str] | None = None, timeout: float = PROBE_TIMEOUT
    ) -> tuple[bytes, int]:
        """Run an internal script. Returns its output and its exit code."""
        limit = math.ceil(timeout)
        process = await self._start_process(["/bin/sh", "-c", script, "sh", *arguments], env=env, timeout=limit)
        with service.call_errors("a command gave no answer"):
            output = b"".join([piece async for piece in process.stdout])
            code: int = await process.wait.aio()
        if code < 0:
            raise TerminalError(f"backend 'modal': a command gave no answer for {timeout:.0f} s")
        return output, code


def _check(code: int, verb: str, path: str) -> None:
    if code != 0:
        raise TerminalError(f"cannot {verb} {path} on backend 'modal': exit code {code}")


def _pieces(source: bytes | Path) -> Iterator[bytes]:
    with contextlib.ExitStack() as stack:
        file = io.BytesIO(source) if isinstance(source, bytes) else stack.enter_context(source.open("rb"))
        yield from iter(lambda: file.read(PIECE), b"")
