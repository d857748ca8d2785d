"""Our MCP server of `mcp_tool_server`, and where it leaves marks."""

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
        MCPServer,  # which takes a second, and most processes of the tests have no use of it
    )


PROGRAM = Path(__file__).with_name("mcp_tool_server.py")
TOKEN = "a token of the server's"
Configure = Callable[..., None]


@pytest.fixture(scope="session")
def program() -> str:
    """The path of our server, which talks over standard input and output."""
    return str(PROGRAM)


@pytest.fixture(scope="session")
def server() -> MCPServer:
    """Our server, to be talked to within this process."""
    return runpy.run_path(str(PROGRAM))["server"]  # type: ignore[no-any-return]


@pytest.fixture(scope="session")
def token() -> str:
    return TOKEN


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The URL of our server over HTTP, which asks for the token."""
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
    """A server that answers nothing, and writes its process id into a file."""
    return {"command": "sh", "args": ["-c", f"echo $$ >{leave_mark}; cat >/dev/null"]}


@pytest.fixture
def serve(configure: Callable[[str], None]) -> Configure:
    """Writes servers into config.yaml, each a mapping by its name."""
    return lambda **servers: configure(yaml.safe_dump({"code_execution": {"mcp_servers": servers}}))
