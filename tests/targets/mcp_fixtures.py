"""Fixtures of the MCP server `mcp_tool_server`."""

from __future__ import annotations

import runpy
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

if TYPE_CHECKING:
    from mcp.server.mcpserver import (
        MCPServer,  # the import takes a second, and few test processes need it
    )


PROGRAM = Path(__file__).with_name("mcp_tool_server.py")
TOKEN = "a token of the server"
Configure = Callable[..., None]


@pytest.fixture(scope="session")
def program() -> str:
    """Path of the server program, for stdio."""
    return str(PROGRAM)


@pytest.fixture(scope="session")
def server() -> MCPServer:
    """The server, within this process."""
    return runpy.run_path(str(PROGRAM))["server"]  # type: ignore[no-any-return]


@pytest.fixture(scope="session")
def token() -> str:
    return TOKEN


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """URL of the server over HTTP, with the token required."""
    with subprocess.Popen([sys.executable, str(PROGRAM), "http", TOKEN], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        yield process.stdout.readline().strip()
        process.terminate()


@pytest.fixture
def stdio(program: str) -> dict[str, object]:
    return {"command": sys.executable, "args": [program]}


@pytest.fixture
def http(url: str, token: str) -> dict[str, object]:
    return {"url": url.replace("mcp", "${NOT_SET_HERE:-mcp}"), "headers": {"Authorization": f"Bearer {token}"}}


@pytest.fixture
def leave_mark(tmp_path: Path) -> Path:
    return tmp_path / "mark"


@pytest.fixture
def silent(leave_mark: Path) -> dict[str, object]:
    """A server that never responds, and writes its process id into `leave_mark`."""
    return {"command": "sh", "args": ["-c", f"echo $$ >{leave_mark}; cat >/dev/null"]}


@pytest.fixture
def serve(configure: Callable[[str], None]) -> Configure:
    """Writes servers into config.yaml; each keyword is a name and its mapping."""
    return lambda **servers: configure(yaml.safe_dump({"code_execution": {"mcp_servers": servers}}))
