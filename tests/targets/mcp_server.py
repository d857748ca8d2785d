"""Servers of `hermes-env mcp`, and client sessions.

The mcp package takes seconds to import. Functions import the package, so only processes with such tests pay.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from targets.engines import PYTHON_IMAGE

if TYPE_CHECKING:
    from mcp.client.client import Client

TOKEN = "a token that is long enough"
CONFIG = """
approvals:
  ask: ['touch asked*']
  tools: {write_file: ask}
"""
"""The config.yaml of all servers here. Tests share a server, as each client has an own environment."""
ON_DOCKER = ("--backend", "docker", "--set", f"image={PYTHON_IMAGE}")

Session = Callable[..., "AbstractAsyncContextManager[Client]"]


@dataclass(frozen=True, slots=True)
class WebServer:
    """A server over HTTP."""

    url: str
    process: subprocess.Popen[str]

    @asynccontextmanager
    async def client(self, token: str = TOKEN, **options: Any) -> AsyncIterator[Client]:
        """Begin a session."""
        from mcp.client.client import Client
        from mcp.client.streamable_http import streamable_http_client
        from mcp.shared._httpx_utils import create_mcp_http_client

        async with (
            create_mcp_http_client({"Authorization": f"Bearer {token}"}) as http,
            Client(streamable_http_client(self.url, http_client=http), **options) as client,
        ):
            yield client


@contextmanager
def serving(variables: dict[str, str], *words: str, exit_code: int = 0) -> Iterator[WebServer]:
    """Run a server as a child, terminate it after the block, and check the exit code."""
    with (
        tempfile.TemporaryFile("w+") as said,
        subprocess.Popen(
            [sys.executable, "-m", "hermes_env", "mcp", "--http", "127.0.0.1:0", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
            env={**variables, "HERMES_MCP_TOKEN": TOKEN},
        ) as process,
    ):
        try:
            assert process.stdout
            yield WebServer(process.stdout.readline().strip(), process)
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == exit_code
        finally:
            process.kill()
            said.seek(0)
            errors = said.read()
        assert "Traceback" not in errors, errors


@pytest.fixture(scope="session")
def server_variables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Environment variables of a server."""
    home = tmp_path_factory.mktemp("home")
    (home / "config.yaml").write_text(CONFIG)
    ours = {name: value for name, value in os.environ.items() if not name.startswith("TERMINAL_")}
    return {**ours, "HERMES_HOME": str(home), "NO_COLOR": "1"}


@pytest.fixture(scope="session")
def web_server(server_variables: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebServer]:
    """A server over HTTP whose clients work on this machine."""
    with serving(server_variables, "--cwd", str(tmp_path_factory.mktemp("work"))) as server:
        yield server


@pytest.fixture
def over_stdio(server_variables: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Session:
    """Begins a session with a new server over stdio."""
    from mcp.client import stdio
    from mcp.client.client import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    # On a busy machine the server's end may take longer than the client's own time-out.
    monkeypatch.setattr(stdio, "PROCESS_TERMINATION_TIMEOUT", 60)

    def begin(*words: str, **options: Any) -> AbstractAsyncContextManager[Client]:
        command = ["-m", "hermes_env", "mcp", *(words or ("--cwd", str(tmp_path)))]
        parameters = StdioServerParameters(command=sys.executable, args=command, env=server_variables)
        return Client(stdio_client(parameters), **options)

    return begin


def run(test: Callable[[], Any]) -> None:
    """Run an asynchronous test with a time-out."""

    async def bounded() -> None:
        with anyio.fail_after(100):
            await test()

    anyio.run(bounded)
