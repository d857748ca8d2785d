"""The sandboxes of the stand-in for Modal, and what was asked for them."""

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


class Sandbox:
    """A sandbox from its creation on, also when it has ended."""

    def __init__(self, request: api.SandboxCreateV2Request, box: Box, *, first_version: bool) -> None:
        # By the length of its id the client tells which version's calls a sandbox takes.
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
        """Whether it has not ended."""
        return not self._ended.is_set()

    def end(self, status: Result.GenericStatus.ValueType, exit_code: int) -> None:
        """Let it end, unless it has already."""
        if self.running:
            self.result = Result(status=status, exitcode=exit_code)
            self._ended.set()

    async def wait(self, timeout: float) -> None:
        """Wait for its end, at most for so long."""
        if timeout:
            await asyncio.wait([asyncio.ensure_future(self._ended.wait())], timeout=timeout)

    @property
    def info(self) -> api.SandboxInfo:
        """What a list of sandboxes says of it."""
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


class State:
    """All that the stand-in knows."""

    def __init__(self, boxes: Boxes) -> None:
        self.apps: dict[str, str] = {}
        self.images: dict[bytes, str] = {}
        self.image_layers: list[dict[str, object]] = []
        self.snapshots: dict[str, str] = {}
        self.numbers = itertools.count(1)
        """Those of snapshots: the number of one that is deleted is not given again."""
        self.secrets: dict[str, dict[str, str]] = {}
        self.volumes: dict[str, str] = {}
        self.sandboxes: dict[str, Sandbox] = {}
        self.url = ""
        self._boxes = boxes

    async def create(self, request: api.SandboxCreateV2Request, *, first_version: bool = False) -> Sandbox:
        """Make a sandbox. Names are unique among those of an app that run."""
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
        sandbox = Sandbox(request, await self._boxes.create(spec), first_version=first_version)
        self.sandboxes[sandbox.id] = sandbox
        return sandbox

    def sandbox(self, identifier: str) -> Sandbox:
        """Find a sandbox by its own id or its task's."""
        for sandbox in self.sandboxes.values():
            if identifier in (sandbox.id, sandbox.task_id):
                return sandbox
        raise GRPCError(Status.NOT_FOUND, f"Sandbox {identifier} not found")

    def find(self, app_id: str, name: str) -> Sandbox | None:
        """Find a running sandbox by name."""
        for sandbox in self.sandboxes.values():
            if sandbox.running and (sandbox.app_id, sandbox.definition.name) == (app_id, name):
                return sandbox
        return None

    def variables(self, sources: Iterable[api.SecretSource]) -> dict[str, str]:
        """Bring together the variables that secrets hold."""
        found: dict[str, str] = {}
        for source in sources:
            found.update(self.secrets[source.secret_id] if source.secret_id else source.env.contents)
        return found

    def seen(self) -> dict[str, object]:
        """What clients asked for, without what secrets hold."""
        return {
            "sandboxes": [
                {**MessageToDict(s.definition), "id": s.id, "tags": s.tags, "running": s.running}
                for s in self.sandboxes.values()
            ],
            "images": self.image_layers,
            "volumes": self.volumes,
            "snapshots": sorted(self.snapshots),
        }
