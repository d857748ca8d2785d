"""A stand-in for Modal: the sandboxes' part of the API, from the client's protocol definitions.

PYTHONPATH=tests python -m standins.modal_server [--docker IMAGE]
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any

from google.protobuf.empty_pb2 import Empty
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from grpclib import GRPCError, Status
from grpclib.server import Server as GRPCServer
from grpclib.server import Stream
from modal_proto import api_pb2 as api
from modal_proto import task_command_router_pb2 as router

from standins.box_process import STDERR, STDOUT, BoxProcess
from standins.boxes import Boxes
from standins.control import main
from standins.delay import DelayProxy
from standins.faults import Ledger
from standins.modal_sandboxes import ModalSandbox, ModalState, Result
from standins.modal_service import TOKEN_ID, TOKEN_SECRET, GRPCService, jwt

BUILDER = "2025.06"
NOT_FOUND = Status.NOT_FOUND


class ControlPlane(GRPCService):
    """Apps, images, secrets, volumes, and the life of sandboxes."""

    def __init__(self, state: ModalState, ledger: Ledger) -> None:
        super().__init__(api.DESCRIPTOR.services_by_name["ModalClient"], ledger)
        self._state = state
        for name in ("GetTaskId", "Wait", "Terminate", "List", "GetFromName", "TagsSet", "TagsGet", "GetTunnels"):
            # The first version, for sandboxes with a GPU, has the same calls under other names.
            setattr(self, f"Sandbox{name}", getattr(self, f"Sandbox{name}V2"))

    def check_caller(self, stream: Stream[Any, Any]) -> None:
        given = (stream.metadata or {}).get("x-modal-token-id"), (stream.metadata or {}).get("x-modal-token-secret")
        if given != (TOKEN_ID, TOKEN_SECRET):
            raise GRPCError(Status.UNAUTHENTICATED, "Token validation failed")

    async def sandbox_dies(self, request: Message) -> None:
        await end_by_accident(self._state.sandbox(request.sandbox_id))

    async def ClientHello(self, request: Message) -> Message:
        return api.ClientHelloResponse(image_builder_version=BUILDER)

    async def AuthTokenGet(self, request: Message) -> Message:
        return api.AuthTokenGetResponse(token=jwt())

    async def EnvironmentGetOrCreate(self, request: Message) -> Message:
        settings = api.EnvironmentSettings(image_builder_version=BUILDER)
        metadata = api.EnvironmentMetadata(name="main", settings=settings)
        return api.EnvironmentGetOrCreateResponse(environment_id="en-1", metadata=metadata)

    async def AppGetOrCreate(self, request: Message) -> Message:
        apps = self._state.apps
        if request.app_name not in apps:
            if request.object_creation_type == api.OBJECT_CREATION_TYPE_UNSPECIFIED:
                raise GRPCError(NOT_FOUND, f"App {request.app_name!r} not found")
            apps[request.app_name] = f"ap-{len(apps) + 1}"
        return api.AppGetOrCreateResponse(app_id=apps[request.app_name])

    async def ImageGetOrCreate(self, request: Message) -> Message:
        key, images = request.image.SerializeToString(deterministic=True), self._state.images
        if key not in images:
            images[key] = f"im-{len(images) + 1}"
            self._state.image_layers.append(MessageToDict(request.image))
        return api.ImageGetOrCreateResponse(
            image_id=images[key],
            result=Result(status=Result.GENERIC_STATUS_SUCCESS),
            metadata=api.ImageMetadata(image_builder_version=BUILDER),
        )

    async def ImageFromId(self, request: Message) -> Message:
        if request.image_id not in (*self._state.images.values(), *self._state.snapshots):
            raise GRPCError(NOT_FOUND, f"Image {request.image_id} not found")
        return api.ImageFromIdResponse(image_id=request.image_id)

    async def ImageDelete(self, request: Message) -> Message:
        if self._state.snapshots.pop(request.image_id, None) is None:
            raise GRPCError(NOT_FOUND, f"Image {request.image_id} not found")
        return Empty()

    async def SecretGetOrCreate(self, request: Message) -> Message:
        secret = f"st-{len(self._state.secrets) + 1}"
        self._state.secrets[secret] = dict(request.env_dict)
        return api.SecretGetOrCreateResponse(secret_id=secret)

    async def VolumeGetOrCreate(self, request: Message) -> Message:
        volumes = self._state.volumes
        volume = volumes.setdefault(request.deployment_name, f"vo-{len(volumes) + 1}")
        return api.VolumeGetOrCreateResponse(volume_id=volume)

    async def SandboxCreateV2(self, request: Message) -> Message:
        sandbox = await self._state.create(request)
        access = api.CommandRouterAccess(url=self._state.url, jwt=jwt())
        return api.SandboxCreateV2Response(sandbox_id=sandbox.id, task_id=sandbox.task_id, command_router_access=access)

    async def SandboxCreate(self, request: Message) -> Message:
        sources = [api.SecretSource(secret_id=secret) for secret in request.definition.secret_ids]
        second = api.SandboxCreateV2Request(
            app_id=request.app_id, definition=request.definition, tags=request.tags, secret_sources=sources
        )
        return api.SandboxCreateResponse(sandbox_id=(await self._state.create(second, first_version=True)).id)

    async def TaskGetCommandRouterAccess(self, request: Message) -> Message:
        self._state.sandbox(request.task_id)
        return api.TaskGetCommandRouterAccessResponse(url=self._state.url, jwt=jwt())

    async def SandboxGetCommandRouterAccess(self, request: Message) -> Message:
        self._state.sandbox(request.sandbox_id or request.task_id)
        return api.SandboxGetCommandRouterAccessResponse(url=self._state.url, jwt=jwt())

    async def SandboxGetTaskIdV2(self, request: Message) -> Message:
        sandbox = self._state.sandbox(request.sandbox_id)
        ended = None if sandbox.running else sandbox.result
        return api.SandboxGetTaskIdResponse(task_id=sandbox.task_id, task_result=ended)

    async def SandboxWaitV2(self, request: Message) -> Message:
        sandbox = self._state.sandbox(request.sandbox_id)
        await sandbox.wait(request.timeout)
        metadata = api.SandboxHandleMetadata(app_id=sandbox.app_id)
        return api.SandboxWaitResponse(result=sandbox.result, metadata=metadata)

    async def SandboxTerminateV2(self, request: Message) -> Message:
        sandbox = self._state.sandbox(request.sandbox_id)
        before = sandbox.result
        sandbox.end(Result.GENERIC_STATUS_TERMINATED, 137)
        return api.SandboxTerminateResponse(existing_result=before)

    async def SandboxListV2(self, request: Message) -> Message:
        wanted = {tag.tag_name: tag.tag_value for tag in request.tags}
        found = [
            sandbox.info
            for sandbox in self._state.sandboxes.values()
            if wanted.items() <= sandbox.tags.items()
            and (request.include_finished or sandbox.running)
            and request.app_id in ("", sandbox.app_id)
            and (not request.before_timestamp or sandbox.created < request.before_timestamp)
        ]
        return api.SandboxListResponse(sandboxes=sorted(found, key=lambda info: -info.created_at))

    async def SandboxGetFromNameV2(self, request: Message) -> Message:
        found = self._state.find(self._state.apps.get(request.app_name, ""), request.sandbox_name)
        if found is None:
            raise GRPCError(NOT_FOUND, f"no sandbox named {request.sandbox_name!r}")
        return api.SandboxGetFromNameResponse(sandbox_id=found.id)

    async def SandboxGetTunnelsV2(self, request: Message) -> Message:
        sandbox = self._state.sandbox(request.sandbox_id)
        tunnels = [
            # The real server behind it speaks TLS, with a certificate that is not here.
            api.TunnelData(host=f"{sandbox.id}-{spec.port}.tunnel.invalid", port=443, container_port=spec.port)
            for spec in sandbox.definition.open_ports.ports
        ]
        return api.SandboxGetTunnelsResponse(tunnels=tunnels)

    async def SandboxTagsSetV2(self, request: Message) -> Message:
        self._state.sandbox(request.sandbox_id).tags = {tag.tag_name: tag.tag_value for tag in request.tags}
        return Empty()

    async def SandboxTagsGetV2(self, request: Message) -> Message:
        return api.SandboxTagsGetResponse(tags=self._state.sandbox(request.sandbox_id).info.tags)


class CommandRouter(GRPCService):
    """Commands in sandboxes. A command may be started, and its input written, twice with one effect."""

    def __init__(self, state: ModalState, ledger: Ledger) -> None:
        super().__init__(router.DESCRIPTOR.services_by_name["TaskCommandRouter"], ledger)
        self._state = state

    async def sandbox_dies(self, request: Message) -> None:
        await end_by_accident(self._state.sandbox(request.task_id))

    def _sandbox(self, request: Message) -> ModalSandbox:
        sandbox = self._state.sandbox(request.task_id)
        if not sandbox.running:
            raise GRPCError(NOT_FOUND, "the task has finished")
        return sandbox

    def _process(self, request: Message) -> BoxProcess:
        process = self._sandbox(request).processes.get(request.exec_id)
        if process is None:
            raise GRPCError(NOT_FOUND, "no such exec")
        return process

    async def TaskExecStart(self, request: Message) -> Message:
        sandbox = self._sandbox(request)
        if request.exec_id in sandbox.processes:
            return router.TaskExecStartResponse()
        size = (request.pty_info.winsz_rows or 24, request.pty_info.winsz_cols or 80)
        try:
            process = await sandbox.box.start(
                list(request.command_args),
                cwd=request.workdir,
                env=self._state.variables(request.secret_sources),
                terminal=size if request.pty_info.enabled else None,
            )
        except OSError as error:
            raise GRPCError(Status.INVALID_ARGUMENT, str(error)) from error
        sandbox.processes[request.exec_id] = process
        if request.timeout_secs:
            loop = asyncio.get_running_loop()
            loop.call_later(request.timeout_secs, lambda: loop.create_task(process.kill()))
        return router.TaskExecStartResponse()

    async def TaskExecWait(self, request: Message) -> Message:
        sandbox, process = self._sandbox(request), self._process(request)
        waits = [asyncio.ensure_future(wait) for wait in (process.wait(), asyncio.shield(sandbox.life))]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
        self._sandbox(request)
        return _exit(process, router.TaskExecWaitResponse)

    async def TaskExecPoll(self, request: Message) -> Message:
        return _exit(self._process(request), router.TaskExecPollResponse)

    async def TaskExecStdioRead(self, request: Message) -> AsyncIterator[Message]:
        wants_stdout = request.file_descriptor == router.TASK_EXEC_STDIO_FILE_DESCRIPTOR_STDOUT
        channel = STDOUT if wants_stdout else STDERR
        async with contextlib.aclosing(self._process(request).read(channel, request.offset)) as pieces:
            async for data in pieces:
                yield router.TaskExecStdioReadResponse(data=data)
        self._sandbox(request)

    async def TaskExecStdinWrite(self, request: Message) -> Message:
        try:
            await self._process(request).write(request.data, request.offset, eof=request.eof)
        except OSError as error:
            raise GRPCError(Status.FAILED_PRECONDITION, "stdin is closed") from error
        return router.TaskExecStdinWriteResponse()

    async def TaskSetNetworkAccess(self, request: Message) -> Message:
        self._sandbox(request).definition.network_access.CopyFrom(request.network_access)
        return router.TaskSetNetworkAccessResponse()

    async def TaskSnapshotFilesystem(self, request: Message) -> Message:
        image = f"im-snapshot{next(self._state.numbers)}"
        self._state.snapshots[image] = await self._sandbox(request).box.snapshot()
        return router.TaskSnapshotFilesystemResponse(image_id=image)


def _exit(process: BoxProcess, answer: Any) -> Message:
    if process.signal is not None:
        return answer(signal=process.signal)
    return answer(code=process.exit_code) if process.ended else answer()


async def end_by_accident(sandbox: ModalSandbox) -> None:
    """End a sandbox like a failure of its machine."""
    sandbox.end(Result.GENERIC_STATUS_INTERNAL_FAILURE, 1)
    await sandbox.life


class ModalServer:
    """Both services on one loopback port."""

    def __init__(self, boxes: Boxes) -> None:
        self.ledger = Ledger()
        self.state = ModalState(boxes)

    @property
    def variables(self) -> Mapping[str, str]:
        return {
            "MODAL_SERVER_URL": self.state.url,
            "MODAL_TOKEN_ID": TOKEN_ID,
            "MODAL_TOKEN_SECRET": TOKEN_SECRET,
            "NO_PROXY": "127.0.0.1,localhost",
        }

    async def end_sandboxes(self) -> None:
        for sandbox in self.state.sandboxes.values():
            await end_by_accident(sandbox)

    def seen(self) -> Mapping[str, object]:
        return self.state.seen()


@contextlib.asynccontextmanager
async def serve(boxes: Boxes, proxy: DelayProxy) -> AsyncIterator[ModalServer]:
    """Serve within the block."""
    modal = ModalServer(boxes)
    server = GRPCServer([ControlPlane(modal.state, modal.ledger), CommandRouter(modal.state, modal.ledger)])
    await server.start("127.0.0.1", 0)
    (socket,) = server._server.sockets  # grpclib has no public way to ask for the port
    modal.state.url = f"http://127.0.0.1:{await proxy.front(socket.getsockname()[1])}"
    try:
        yield modal
    finally:
        for sandbox in modal.state.sandboxes.values():
            sandbox.end(Result.GENERIC_STATUS_TERMINATED, 137)
            await sandbox.life
        server.close()


if __name__ == "__main__":
    main(serve)
