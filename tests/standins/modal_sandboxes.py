"""The sandboxes of the stand-in for Modal, and the requests for them."""

from __future__ import annotations

import asyncio
import itertools
import time
import uuid
from collections.abc import Iterable

from google.protobuf.json_format import MessageToDict
from grpclib import GRPCError, Status
from modal_proto import api_pb2 as api

from standins.box_process import BoxProcess
from standins.boxes import Box, Boxes, BoxSpec

Result = api.GenericResult


class ModalSandbox:
    """A sandbox, running or ended."""

    def __init__(self, request: api.SandboxCreateV2Request, box: Box, *, first_version: bool) -> None:
        # The client derives the version of a sandbox's calls from the length of the id.
        self.id = f"sb-{uuid.uuid4().hex[: 22 if first_version else 26]}"
        self.task_id = f"ta-{uuid.uuid4().hex}{'' if first_version else 'V'}"
        self.definition, self.app_id, self.box = request.definition, request.app_id, box
        self.created = time.time()
        self.tags = {tag.tag_name: tag.tag_value for tag in request.tags}
        self.processes: dict[str, BoxProcess] = {}
        self.result = Result()
        self._ended = asyncio.Event()
        self.life = asyncio.create_task(self._live())

    async def _live(self) -> None:
        try:
            await asyncio.wait_for(self._ended.wait(), self.definition.timeout_secs or None)
        except TimeoutError:
            self.end(Result.GENERIC_STATUS_TIMEOUT, 124)
        await self.box.destroy()
        for process in self.processes.values():
            process.forget()

    @property
    def running(self) -> bool:
        """True until the sandbox ends."""
        return not self._ended.is_set()

    def end(self, status: Result.GenericStatus.ValueType, exit_code: int) -> None:
        """End a running sandbox."""
        if self.running:
            self.result = Result(status=status, exitcode=exit_code)
            self._ended.set()

    async def wait(self, timeout: float) -> None:
        """Wait for the sandbox's end, at most `timeout` seconds."""
        if timeout:
            await asyncio.wait([asyncio.ensure_future(self._ended.wait())], timeout=timeout)

    @property
    def info(self) -> api.SandboxInfo:
        """The sandbox's entry in a list of sandboxes."""
        tags = [api.SandboxTag(tag_name=name, tag_value=value) for name, value in self.tags.items()]
        task = api.TaskInfo(id=self.task_id, result=self.result)
        return api.SandboxInfo(
            id=self.id,
            created_at=self.created,
            app_id=self.app_id,
            name=self.definition.name,
            task_info=task,
            tags=tags,
        )


class ModalState:
    """The whole state of the stand-in."""

    def __init__(self, boxes: Boxes) -> None:
        self.apps: dict[str, str] = {}
        self.images: dict[bytes, str] = {}
        self.image_layers: list[dict[str, object]] = []
        self.snapshots: dict[str, str] = {}
        self.numbers = itertools.count(1)
        """Numbers of snapshots. The number of a deleted snapshot is not used again."""
        self.secrets: dict[str, dict[str, str]] = {}
        self.volumes: dict[str, str] = {}
        self.sandboxes: dict[str, ModalSandbox] = {}
        self.url = ""
        self._boxes = boxes

    async def create(self, request: api.SandboxCreateV2Request, *, first_version: bool = False) -> ModalSandbox:
        """Create a sandbox. Names are unique among an app's running sandboxes."""
        definition = request.definition
        if definition.name and self.find(request.app_id, definition.name):
            raise GRPCError(Status.ALREADY_EXISTS, f"Sandbox {definition.name!r} already exists")
        spec = BoxSpec(
            image=self.snapshots.get(definition.image_id, ""),
            workdir=definition.workdir,
            env=self.variables(request.secret_sources),
            cpu=definition.resources.milli_cpu_max / 1000,
            memory_mb=definition.resources.memory_mb_max,
            network=definition.network_access.network_access_type != api.NetworkAccess.BLOCKED,
        )
        sandbox = ModalSandbox(request, await self._boxes.create(spec), first_version=first_version)
        self.sandboxes[sandbox.id] = sandbox
        return sandbox

    def sandbox(self, identifier: str) -> ModalSandbox:
        """Find a sandbox by its own id or its task's."""
        for sandbox in self.sandboxes.values():
            if identifier in (sandbox.id, sandbox.task_id):
                return sandbox
        raise GRPCError(Status.NOT_FOUND, f"Sandbox {identifier} not found")

    def find(self, app_id: str, name: str) -> ModalSandbox | None:
        """Find a running sandbox by name."""
        for sandbox in self.sandboxes.values():
            if sandbox.running and (sandbox.app_id, sandbox.definition.name) == (app_id, name):
                return sandbox
        return None

    def variables(self, sources: Iterable[api.SecretSource]) -> dict[str, str]:
        """Return the variables of all secrets."""
        found: dict[str, str] = {}
        for source in sources:
            found.update(self.secrets[source.secret_id] if source.secret_id else source.env.contents)
        return found

    def seen(self) -> dict[str, object]:
        """Return the clients' requests, without secrets."""
        return {
            "sandboxes": [
                {**MessageToDict(s.definition), "id": s.id, "tags": s.tags, "running": s.running}
                for s in self.sandboxes.values()
            ],
            "images": self.image_layers,
            "volumes": self.volumes,
            "snapshots": sorted(self.snapshots),
        }
