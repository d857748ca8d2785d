"""Daytona's toolbox: commands, terminals and files in a sandbox, with all habits of the real toolbox."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json

from aiohttp import BodyPartReader, MultipartWriter, WSMsgType, web

from standins.box_process import STDERR, STDOUT, BoxProcess
from standins.daytona_sandboxes import DaytonaSandbox, Sandboxes, refusal

GREETING = 0.3
"""Seconds until a terminal reports its connection, as over a slow link."""
PASSING_ON = 0.3
"""Seconds until `docker exec` has passed the size of its terminal to the container's terminal."""
_PUT = 'mkdir -p "${0%/*}" && cat >"$0"'
_VARIABLES = "X-Daytona-Pty-Envs~"


class Toolbox:
    """The calls of a sandbox's toolbox."""

    def __init__(self, sandboxes: Sandboxes) -> None:
        self._sandboxes = sandboxes

    async def execute(self, request: web.Request) -> web.Response:
        """Run a command as the input of a shell. A background child with the open output delays the response."""
        sandbox, body = self._sandboxes.started(request), await request.json()
        try:
            shell = await sandbox.box.start(["sh"], cwd=body.get("cwd") or "", env=body.get("envs"), merge=True)
        except OSError as error:
            return web.json_response({"exitCode": -1, "result": str(error)})
        try:
            async with asyncio.timeout(body.get("timeout") or None):
                with contextlib.suppress(BrokenPipeError):
                    await shell.write(body["command"].encode(), eof=True)
                output = b"".join([piece async for piece in shell.read(STDOUT)])
                await shell.wait()
        except TimeoutError:
            raise refusal(408, "command execution timeout") from None
        finally:
            await _end(shell)
        code = -1 if shell.signal else shell.exit_code
        return web.json_response({"exitCode": code, "result": output.decode("utf-8", "replace")})

    # Terminals.

    async def terminal(self, request: web.Request) -> web.WebSocketResponse:
        sandbox, query = self._sandboxes.started(request), request.query
        offered = [word.strip() for word in request.headers.get("Sec-WebSocket-Protocol", "").split(",")]
        env: dict[str, str] = {"TERM": "xterm-256color"}
        for word in offered:
            if word.startswith(_VARIABLES):
                env |= json.loads(base64.urlsafe_b64decode(word.removeprefix(_VARIABLES) + "=="))
        socket = web.WebSocketResponse(protocols=[word for word in offered if word and "~" not in word])
        await socket.prepare(request)
        size = (int(query["rows"]), int(query["cols"]))
        shell = await sandbox.box.start(["sh", "-i"], cwd=query.get("cwd", ""), env=env, terminal=size)
        sandbox.terminals[query["id"]] = shell
        await asyncio.sleep(GREETING)
        await socket.send_json({"type": "control", "status": "connected"})
        sender = asyncio.create_task(self._send(shell, socket))
        try:
            async for message in socket:
                if message.type in (WSMsgType.BINARY, WSMsgType.TEXT):
                    data = message.data if isinstance(message.data, bytes) else message.data.encode()
                    with contextlib.suppress(OSError):
                        await shell.write(data)
        finally:
            sandbox.terminals.pop(query["id"], None)
            await _end(shell)
            await sender
        return socket

    @staticmethod
    async def _send(shell: BoxProcess, socket: web.WebSocketResponse) -> None:
        with contextlib.suppress(ConnectionError):
            async for data in shell.read(STDOUT):
                await socket.send_bytes(data)
            code = await shell.wait()
            await socket.close(code=1000, message=json.dumps({"exitCode": code}).encode())

    async def resize_terminal(self, request: web.Request) -> web.Response:
        sandbox, body = self._sandboxes.started(request), await request.json()
        self._terminal(sandbox, request).resize((body["rows"], body["cols"]))
        await asyncio.sleep(PASSING_ON)
        about = {"id": request.match_info["terminal"], "active": True, "createdAt": "2026-01-01T00:00:00Z"}
        about |= {"cwd": "/", "envs": {}, "lazyStart": False, "rows": body["rows"], "cols": body["cols"]}
        return web.json_response(about)

    async def kill_terminal(self, request: web.Request) -> web.Response:
        await self._terminal(self._sandboxes.started(request), request).kill()
        return web.json_response({"message": "deleted"})

    @staticmethod
    def _terminal(sandbox: DaytonaSandbox, request: web.Request) -> BoxProcess:
        try:
            return sandbox.terminals[request.match_info["terminal"]]
        except KeyError:
            raise refusal(404, "PTY session not found") from None

    # Files.

    async def bulk_upload(self, request: web.Request) -> web.Response:
        sandbox, paths = self._sandboxes.started(request), {}
        async for part in await request.multipart():
            assert isinstance(part, BodyPartReader) and part.name
            index, _, kind = part.name.partition("].")
            if kind == "path":
                paths[index] = await part.text()
            else:
                await self._put(sandbox, paths[index], part)
        return web.Response()

    @staticmethod
    async def _put(sandbox: DaytonaSandbox, path: str, part: BodyPartReader) -> None:
        writer = await sandbox.box.start(["sh", "-c", _PUT, path])
        try:
            with contextlib.suppress(BrokenPipeError):
                while piece := await part.read_chunk(256 * 1024):
                    await writer.write(piece)
                await writer.write(b"", eof=True)
            if await writer.wait() != 0:
                raise refusal(400, writer.output(STDERR).decode("utf-8", "replace"))
        finally:
            await _end(writer)

    async def bulk_download(self, request: web.Request) -> web.Response:
        sandbox = self._sandboxes.started(request)
        with MultipartWriter("form-data") as writer:
            for path in (await request.json())["paths"]:
                await self._append(writer, sandbox, path)
        return web.Response(body=writer, headers=writer.headers)

    @staticmethod
    async def _append(writer: MultipartWriter, sandbox: DaytonaSandbox, path: str) -> None:
        reader = await sandbox.box.start(["cat", "--", path])
        try:
            data = b"".join([piece async for piece in reader.read(STDOUT)])
            failed = await reader.wait() != 0
            error = reader.output(STDERR).decode("utf-8", "replace").strip()
        finally:
            await _end(reader)
        kind, name, body = "application/octet-stream", "file", data
        if failed:
            kind, name = "application/json", "error"
            body = json.dumps({"message": error, "statusCode": 404, "code": "FILE_NOT_FOUND"}).encode()
        part = writer.append(body, {"Content-Type": kind})
        part.headers["Content-Disposition"] = f'form-data; name="{name}"; filename="{path}"'


async def _end(process: BoxProcess) -> None:
    """Kill a running process, and free it. The background children of an ended process go on."""
    if not process.ended:
        await process.kill()
    process.forget()
