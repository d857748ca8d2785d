"""The plug's options, and their effect on a session."""

from __future__ import annotations

import asyncio
import io
import socket
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest
from agents.sandbox import LocalSnapshotSpec, Manifest
from agents.sandbox.errors import ExecTransportError, ExposedPortUnavailableError
from agents.sandbox.session import BaseSandboxClientOptions
from place import PLACE
from threads import threads_of

from hermes_env.plugs.openai_agents import HermesSandboxClient, HermesSandboxClientOptions

if PLACE.own:
    pytest.skip("it is about the plug", allow_module_level=True)
SERVER = "echo hello > index.html && exec python3 -m http.server"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


async def test_options_are_found_by_name_and_a_port_is_reached() -> None:
    settings = {name: value for name, value in PLACE.settings.items() if name != "backend"}
    port = free_port()
    named = {"type": "hermes", "backend": PLACE.settings["backend"], "settings": settings, "exposed_ports": (port,)}
    options = BaseSandboxClientOptions.parse(named)
    assert isinstance(options, HermesSandboxClientOptions)
    assert BaseSandboxClientOptions.parse(options.model_dump(mode="json")) == options
    client = HermesSandboxClient("ssh", host="the options have another")
    session = await client.create(options=options)
    async with session:
        await session.pty_exec_start(f"{SERVER} {port}", yield_time_s=0.3)
        endpoint = await session.resolve_exposed_port(port)
        assert await asyncio.to_thread(_fetched, endpoint.url_for("http")) == b"hello\n"
        with pytest.raises(ExposedPortUnavailableError):
            await session.resolve_exposed_port(port + 1)


def _fetched(url: str) -> bytes:
    deadline = time.monotonic() + 30
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                return bytes(answer.read())
        except OSError:  # the server is not listening yet
            assert time.monotonic() < deadline
            time.sleep(0.1)


@pytest.mark.skipif(not {"local", "ssh"} & set(PLACE.tags), reason="its target is gone")
async def test_nothing_of_a_session_is_left_on_a_host(tmp_path: Path) -> None:
    client = HermesSandboxClient(**PLACE.settings)
    session = await client.create(manifest=Manifest(), snapshot=LocalSnapshotSpec(base_path=tmp_path))
    async with session:
        root = Path(session.state.manifest.root)
        await session.write(Path("note"), io.BytesIO(b"kept"))
        assert (root / "note").read_bytes() == b"kept"
    await client.delete(session)
    assert not root.exists()
    left_of_scripts = Path("/tmp/openai-agents", "session-state", session.state.session_id.hex)
    assert not left_of_scripts.exists()


@pytest.mark.skipif("docker" not in PLACE.tags, reason="it removes a container")
async def test_a_container_that_is_removed_is_not_replaced_until_the_session_is_resumed() -> None:
    client = HermesSandboxClient(**PLACE.settings)
    session = await client.create(manifest=Manifest())
    await session.start()
    subprocess.run(["docker", "rm", "--force", session.state.target_id], check=True, capture_output=True)
    for _ in range(2):
        with pytest.raises(ExecTransportError):
            await session.exec("true")
        assert not await session.running()
    await client.delete(session)
    resumed = await client.resume(session.state)
    async with resumed:
        assert await resumed.running()
        assert resumed.state.target_id
    await client.delete(resumed)


@pytest.mark.skipif("local" not in PLACE.tags, reason="clients of engines and of SSH have threads of their own")
async def test_commands_need_no_thread_each() -> None:
    client = HermesSandboxClient(**PLACE.settings)
    async with await client.create(manifest=Manifest()) as session:

        async def use() -> None:
            await session.exec("sleep 0.3")
            await session.pty_exec_start("sleep 0.1", yield_time_s=0.3)

        assert await threads_of(use) < 5
    await client.delete(session)
