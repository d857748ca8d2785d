from __future__ import annotations

import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from mcp.server.mcpserver import MCPServer

PROGRAM = Path(__file__).with_name("tool_server.py")
TOKEN = "a token of the server's"


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
    """Where our server is over HTTP, for who has the token."""
    with subprocess.Popen([sys.executable, str(PROGRAM), "http", TOKEN], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        yield process.stdout.readline().strip()
        process.terminate()


@pytest.fixture
def leave_mark(tmp_path: Path) -> Path:
    return tmp_path / "mark"
