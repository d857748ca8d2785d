"""MCP servers with containers for their clients: the end of a server, and the messages to a client."""

from __future__ import annotations

import signal
from functools import partial

import anyio
import pytest
from docker import DockerClient
from targets.awaiting import until
from targets.docker_fixtures import engine
from targets.engines import MINIMAL_IMAGE
from targets.image_registry import registry_with
from targets.mcp_notifications import UNTIL_NOTIFIED, Notifications
from targets.mcp_server import ON_DOCKER, Session, run, serving
from targets.processes import processes_with

__all__ = ["engine"]

pytestmark = pytest.mark.xdist_group("mcp")


def test_control_c_ends_all_sessions_and_what_they_run(
    server_variables: dict[str, str], engine: DockerClient, nap: str
) -> None:
    async def test() -> None:
        with serving(server_variables, *ON_DOCKER, exit_code=130) as server:
            async with server.client() as client:
                result = await client.call_tool("terminal", {"command": "hostname"})
                name = result.structured_content["output"].strip()

                async def call() -> None:
                    result = await client.call_tool("terminal", {"command": f"sleep {nap}"})
                    assert result.structured_content == {"error": "the call was ended, because the session has ended"}

                async with anyio.create_task_group() as group:
                    group.start_soon(call)
                    await until(lambda: bool(processes_with(nap)))
                    server.process.send_signal(signal.SIGINT)
            await until(lambda: server.process.poll() is not None)
            assert not processes_with(nap)
            assert engine.api.containers(all=True, filters={"id": name}) == []

    run(test)


def test_a_client_is_told_what_the_start_of_its_container_is_doing(over_stdio: Session) -> None:
    received = Notifications()

    async def test() -> None:
        async with (
            over_stdio(*ON_DOCKER, logging_callback=received.log) as client,
            anyio.create_task_group() as group,
        ):
            group.start_soon(client.call_tool, "terminal", {"command": UNTIL_NOTIFIED})
            await until(lambda: "starting a container" in received.shown("environment"))
            await client.call_tool("execute_code", {"code": "open('told', 'w').close()"})

    run(test)


def test_a_client_is_told_that_an_image_is_pulled(over_stdio: Session, engine: DockerClient) -> None:
    received = Notifications()

    async def test(image: str) -> None:
        words = ("--backend", "docker", "--set", f"image={image}")
        async with over_stdio(*words, logging_callback=received.log) as client, anyio.create_task_group() as group:

            async def call() -> None:
                await client.call_tool("terminal", {"command": UNTIL_NOTIFIED}, progress_callback=received.note)

            group.start_soon(call)
            await until(lambda: f"pulling image {image}" in received.shown("environment") and bool(received.progress))
            await client.call_tool("write_file", {"path": "told", "content": ""})

    with registry_with(engine, MINIMAL_IMAGE) as image:
        try:
            run(partial(test, image))
        finally:
            engine.images.remove(image)
