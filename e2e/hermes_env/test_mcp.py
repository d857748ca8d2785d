"""MCP servers whose clients work in containers; tests_long/hermes_env/mcp has more."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from docker import DockerClient
from targets.awaiting import until
from targets.mcp_server import ON_DOCKER, Session, over_stdio, run, server_variables, serving

if TYPE_CHECKING:  # the import takes a second: only the process of this test needs the module
    from mcp.client.client import Client

__all__ = ["over_stdio", "server_variables"]

pytestmark = pytest.mark.xdist_group("mcp")


async def output_of(client: Client, command: str) -> str:
    result = await client.call_tool("terminal", {"command": command})
    assert not result.is_error, result
    return str(result.structured_content["output"]).strip()


def test_a_container_is_removed_with_its_session(
    over_stdio: Session, server_variables: dict[str, str], engine: DockerClient
) -> None:
    def is_there(container: str) -> bool:
        return bool(engine.api.containers(all=True, filters={"id": container}))

    async def test() -> None:
        async with over_stdio(*ON_DOCKER) as client:
            name = await output_of(client, "hostname")
            assert is_there(name)
        assert not is_there(name)
        with serving(server_variables, *ON_DOCKER) as server:
            async with server.client() as client:
                name = await output_of(client, "hostname")
                script = {"code": "from hermes_tools import terminal; print(terminal('hostname')['output'])"}
                result = await client.call_tool("execute_code", script)
                assert result.structured_content["output"].strip() == name
            await until(lambda: not is_there(name))

    run(test)
