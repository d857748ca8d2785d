"""Daytona's control plane: sandboxes and their states."""

from __future__ import annotations

import json
import math
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime

from aiohttp import web

from standins.box_process import BoxProcess
from standins.boxes import Box, Boxes, BoxSpec

EPHEMERAL = 0
"""The auto-delete interval of a sandbox to delete when it stops."""


def refusal(status: int, message: str) -> web.HTTPException:
    """Return an error in the service's form."""
    body = json.dumps({"statusCode": status, "message": message, "error": message})
    kind = type("Refusal", (web.HTTPException,), {"status_code": status})
    return kind(text=body, content_type="application/json")


class DaytonaSandbox:
    """One sandbox."""

    def __init__(self, spec: Mapping[str, object], box: Box, toolbox: str) -> None:
        self.id = str(uuid.uuid4())
        self.spec, self.box = dict(spec), box
        self.name = str(spec.get("name") or self.id)
        self.labels = dict(spec.get("labels") or {})  # type: ignore[call-overload]
        self.state = "started"
        self.recoverable = False
        self.terminals: dict[str, BoxProcess] = {}
        self._toolbox = toolbox
        self._created = _now()

    def describe(self) -> dict[str, object]:
        spec = self.spec
        return {
            "id": self.id,
            "organizationId": "standin",
            "name": self.name,
            "snapshot": spec.get("snapshot"),
            "user": "root",
            "env": spec.get("env") or {},
            "labels": self.labels,
            "public": False,
            "networkBlockAll": bool(spec.get("networkBlockAll")),
            "networkAllowList": spec.get("networkAllowList"),
            "domainAllowList": spec.get("domainAllowList"),
            "kvm": False,
            "target": spec.get("target") or "local",
            "cpu": spec.get("cpu") or 1,
            "gpu": 0,
            "memory": spec.get("memory") or 1,
            "disk": spec.get("disk") or 3,
            "state": self.state,
            "desiredState": self.state if self.state in ("started", "stopped", "archived") else "started",
            "errorReason": "the runner was restarted" if self.state == "error" else None,
            "recoverable": self.recoverable,
            "autoStopInterval": spec.get("autoStopInterval", 15),
            "autoArchiveInterval": spec.get("autoArchiveInterval", 10080),
            "autoDeleteInterval": spec.get("autoDeleteInterval", -1),
            "createdAt": self._created,
            "updatedAt": _now(),
            "toolboxProxyUrl": self._toolbox,
        }


class DaytonaSnapshot:
    """The files of a sandbox, as an image for other sandboxes."""

    def __init__(self, name: str, sandbox: DaytonaSandbox, image: str) -> None:
        self.id, self.name, self.image = str(uuid.uuid4()), name, image
        self._sandbox, self._created = sandbox, _now()

    def describe(self) -> dict[str, object]:
        spec = self._sandbox.describe()
        return {
            "id": self.id,
            "organizationId": "standin",
            "general": False,
            "name": self.name,
            "state": "active",
            "size": 0.1,
            "entrypoint": None,
            "cpu": spec["cpu"],
            "gpu": 0,
            "mem": spec["memory"],
            "disk": spec["disk"],
            "errorReason": None,
            "createdAt": self._created,
            "updatedAt": self._created,
            "lastUsedAt": None,
            "sourceSandboxId": self._sandbox.id,
        }


def _now() -> str:
    return datetime.now(UTC).isoformat()


class Sandboxes:
    """All sandboxes and snapshots."""

    def __init__(self, boxes: Boxes) -> None:
        self._boxes = boxes
        self._all: dict[str, DaytonaSandbox] = {}
        self._snapshots: dict[str, DaytonaSnapshot] = {}
        self.toolbox = ""
        self.created: list[dict[str, object]] = []

    def find(self, request: web.Request) -> DaytonaSandbox:
        key = request.match_info["sandbox"]
        for sandbox in self._all.values():
            if key in (sandbox.id, sandbox.name):
                return sandbox
        raise refusal(404, f"Sandbox with ID or name {key} not found")

    def started(self, request: web.Request) -> DaytonaSandbox:
        sandbox = self.find(request)
        if sandbox.state != "started":
            raise refusal(400, "bad request: sandbox is not started")
        return sandbox

    async def destroy(self, sandbox: DaytonaSandbox) -> None:
        self._all.pop(sandbox.id, None)
        sandbox.state = "destroyed"
        await sandbox.box.destroy()

    async def destroy_all(self) -> None:
        for sandbox in list(self._all.values()):
            await self.destroy(sandbox)

    # The calls.

    async def create(self, request: web.Request) -> web.Response:
        spec = await request.json()
        self.created.append(spec)
        if any(sandbox.name == spec.get("name") for sandbox in self._all.values()):
            raise refusal(409, f"Sandbox with name {spec['name']} already exists")
        own = self._snapshots.get(spec.get("snapshot") or "")  # an unknown name counts as a snapshot of the service
        wanted = BoxSpec(
            image=own.image if own else "",
            env=spec.get("env") or {},
            cpu=spec.get("cpu") or 0,
            memory_mb=(spec.get("memory") or 0) * 1024,
            network=not spec.get("networkBlockAll"),
        )
        sandbox = DaytonaSandbox(spec, await self._boxes.create(wanted), self.toolbox)
        self._all[sandbox.id] = sandbox
        return web.json_response(sandbox.describe())

    async def list(self, request: web.Request) -> web.Response:
        wanted = json.loads(request.query.get("labels") or "{}").items()
        found = [sandbox.describe() for sandbox in self._all.values() if wanted <= sandbox.labels.items()]
        return web.json_response({"items": found, "nextCursor": None})

    async def get(self, request: web.Request) -> web.Response:
        return web.json_response(self.find(request).describe())

    async def delete(self, request: web.Request) -> web.Response:
        sandbox = self.find(request)
        await self.destroy(sandbox)
        return web.json_response(sandbox.describe())

    async def toolbox_proxy_url(self, request: web.Request) -> web.Response:
        self.find(request)
        return web.json_response({"url": self.toolbox})

    async def preview_url(self, request: web.Request) -> web.Response:
        sandbox, port = self.find(request), request.match_info["port"]
        url = f"https://{port}-{sandbox.id}.preview.invalid"
        return web.json_response({"sandboxId": sandbox.id, "url": url, "token": f"preview-{sandbox.id}"})

    async def set_labels(self, request: web.Request) -> web.Response:
        sandbox = self.find(request)
        sandbox.labels = (await request.json())["labels"]
        return web.json_response({"labels": sandbox.labels})

    async def set_network(self, request: web.Request) -> web.Response:
        sandbox = self.find(request)
        sandbox.spec |= {"networkBlockAll": False, "networkAllowList": None, "domainAllowList": None}
        sandbox.spec |= await request.json()
        return web.json_response(sandbox.describe())

    async def set_interval(self, request: web.Request) -> web.Response:
        sandbox = self.find(request)
        kind = request.match_info["kind"].removeprefix("auto").capitalize()
        sandbox.spec[f"auto{kind}Interval"] = int(request.match_info["minutes"])
        return web.json_response(sandbox.describe())

    async def start(self, request: web.Request) -> web.Response:
        sandbox = self.find(request)
        if sandbox.state == "error":
            raise refusal(400, "Sandbox is in an error state")
        if sandbox.state != "started":
            await sandbox.box.resume()
            sandbox.state = "started"
        return web.json_response(sandbox.describe())

    async def recover(self, request: web.Request) -> web.Response:
        sandbox = self.find(request)
        if not sandbox.recoverable:
            raise refusal(400, "Sandbox is not recoverable")
        sandbox.recoverable = False
        await sandbox.box.resume()
        sandbox.state = "started"
        return web.json_response(sandbox.describe())

    async def stop(self, request: web.Request) -> web.Response:
        sandbox = self.find(request)
        await self._halt(sandbox, "stopped")
        if sandbox.spec.get("autoDeleteInterval") == EPHEMERAL:
            await self.destroy(sandbox)
        return web.json_response(sandbox.describe())

    async def archive(self, request: web.Request) -> web.Response:
        sandbox = self.find(request)
        if sandbox.state != "stopped":
            raise refusal(400, "Sandbox is not stopped")
        sandbox.state = "archived"
        return web.json_response(sandbox.describe())

    async def take_snapshot(self, request: web.Request) -> web.Response:
        sandbox, name = self.started(request), (await request.json())["name"]
        if name in self._snapshots:
            raise refusal(409, f"Snapshot with name {name} already exists")
        self._snapshots[name] = DaytonaSnapshot(name, sandbox, await sandbox.box.snapshot())
        return web.json_response(sandbox.describe())

    async def snapshots(self, request: web.Request) -> web.Response:
        page, limit = int(request.query.get("page", 1)), int(request.query.get("limit", 100))
        found = [snapshot.describe() for snapshot in self._snapshots.values()]
        pages = math.ceil(len(found) / limit)
        items = found[(page - 1) * limit : page * limit]
        return web.json_response({"items": items, "total": len(found), "page": page, "totalPages": pages})

    def _snapshot(self, request: web.Request) -> DaytonaSnapshot:
        key = request.match_info["snapshot"]
        for snapshot in self._snapshots.values():
            if key in (snapshot.id, snapshot.name):
                return snapshot
        raise refusal(404, f"Snapshot with ID or name {key} not found")

    async def snapshot(self, request: web.Request) -> web.Response:
        return web.json_response(self._snapshot(request).describe())

    async def remove_snapshot(self, request: web.Request) -> web.Response:
        del self._snapshots[self._snapshot(request).name]
        return web.Response()

    async def break_down(self, sandbox: DaytonaSandbox) -> None:
        """Put a kept sandbox into a recoverable error state."""
        await self._halt(sandbox, "error")
        sandbox.recoverable = True

    @staticmethod
    async def _halt(sandbox: DaytonaSandbox, state: str) -> None:
        if sandbox.state == "started":
            await sandbox.box.halt()
        sandbox.state = state
