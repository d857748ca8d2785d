"""MCP servers whose clients work in containers."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from functools import partial
from typing import Any

import anyio
import pytest
from docker import DockerClient
from docker.errors import NotFound
from mcp.client.client import Client
from mcp.types import LoggingMessageNotificationParams
from targets.awaiting import until
from targets.engines import MINIMAL_IMAGE
from targets.image_registry import registry_with
from targets.mcp_server import ON_DOCKER, Session, WebServer, over_stdio, run, server_variables, serving
from targets.processes import having

__all__ = ["over_stdio", "server_variables"]

pytestmark = pytest.mark.xdist_group("mcp")


UNTIL_TOLD = "rm -f told; echo early; while [ ! -e told ]; do sleep 0.1; done; echo late"
"""A command that ends once it was seen that it runs."""


class Told:
    """What a client was told."""

    def __init__(self) -> None:
        self.messages: list[tuple[str, str | None, Any]] = []
        self.progress: list[tuple[float, str | None]] = []

    async def log(self, message: LoggingMessageNotificationParams) -> None:
        self.messages.append((message.level, message.logger, message.data))

    async def note(self, progress: float, total: float | None, message: str | None) -> None:
        self.progress.append((progress, message))

    def shown(self, who: str) -> str:
        return "".join(str(data) for _, logger, data in self.messages if logger == who)


@pytest.fixture(scope="module")
def web_server_on_docker(server_variables: dict[str, str]) -> Iterator[WebServer]:
    """A server over HTTP whose clients work in containers."""
    with serving(server_variables, *ON_DOCKER) as server:
        yield server


async def _printed(client: Client, command: str) -> str:
    result = await client.call_tool("terminal", {"command": command})
    assert not result.is_error, result
    return str(result.structured_content["output"]).strip()


def _is_gone(engine: DockerClient, container: str) -> bool:
    try:
        engine.containers.get(container)
    except NotFound:
        return True
    return False


def test_a_container_goes_with_its_session(
    over_stdio: Session, web_server_on_docker: WebServer, engine: DockerClient
) -> None:
    async def test() -> None:
        async with over_stdio(*ON_DOCKER) as client:
            name = await _printed(client, "hostname")
            assert not _is_gone(engine, name)
        assert _is_gone(engine, name)
        async with web_server_on_docker.client() as client:
            name = await _printed(client, "hostname")
            script = {"code": "from hermes_tools import terminal; print(terminal('hostname')['output'])"}
            assert (await client.call_tool("execute_code", script)).structured_content["output"].strip() == name
        await until(lambda: _is_gone(engine, name))

    run(test)


def test_control_c_ends_all_sessions_and_what_they_run(
    server_variables: dict[str, str], engine: DockerClient, nap: str
) -> None:
    async def test() -> None:
        with serving(server_variables, *ON_DOCKER) as server:
            async with server.client() as client:
                name = await _printed(client, "hostname")

                async def call() -> None:
                    result = await client.call_tool("terminal", {"command": f"sleep {nap}"})
                    assert result.structured_content == {"error": "it was ended, as the session is"}

                async with anyio.create_task_group() as group:
                    group.start_soon(call)
                    await until(lambda: bool(having(nap)))
                    server.process.send_signal(signal.SIGINT)
            await until(lambda: server.process.poll() is not None)
            assert not having(nap)
            assert _is_gone(engine, name)

    run(test)


def test_a_client_is_told_what_the_start_of_its_container_is_doing(web_server_on_docker: WebServer) -> None:
    told = Told()

    async def test() -> None:
        async with web_server_on_docker.client(logging_callback=told.log) as client, anyio.create_task_group() as group:
            group.start_soon(client.call_tool, "terminal", {"command": UNTIL_TOLD})
            await until(lambda: "starting a container" in told.shown("environment"))
            await client.call_tool("execute_code", {"code": "open('told', 'w').close()"})

    run(test)


def test_a_client_is_told_that_an_image_is_pulled(over_stdio: Session, engine: DockerClient) -> None:
    told = Told()

    async def test(image: str) -> None:
        words = ("--backend", "docker", "--set", f"image={image}")
        async with over_stdio(*words, logging_callback=told.log) as client, anyio.create_task_group() as group:

            async def call() -> None:
                await client.call_tool("terminal", {"command": UNTIL_TOLD}, progress_callback=told.note)

            group.start_soon(call)
            await until(lambda: f"pulling image {image}" in told.shown("environment") and bool(told.progress))
            await client.call_tool("write_file", {"path": "told", "content": ""})

    with registry_with(engine, MINIMAL_IMAGE) as image:
        try:
            run(partial(test, image))
        finally:
            engine.images.remove(image)
