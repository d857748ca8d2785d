"""The official clients, each a program that runs a scenario and prints the result as JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from targets.mcp_server import TOKEN, WebServer

from mcp_clients import node

PATIENCE = 90
"""The time limit of a scenario, in seconds."""


@dataclass(frozen=True, slots=True)
class OfficialClient:
    """A client, and its transport to a server."""

    name: str
    program: Callable[[], list[str]]
    over_http: bool
    sdk: int = 0
    """The generation of the TypeScript SDK."""

    @property
    def keeps_sessions(self) -> bool:
        """True if the client can leave a session and resume the session."""
        return self.over_http and bool(self.sdk)

    def run(
        self,
        scenario: str,
        server: WebServer,
        variables: Mapping[str, str],
        cwd: Path,
        answer: str = "",
        **more: object,
    ) -> Any:
        """Run a scenario, and return the printed JSON.

        Args:
            scenario: Its name.
            server: The server over HTTP.
            variables: The variables of a server over stdio.
            cwd: The working directory of a server over stdio.
            answer: The user's answer to an elicitation; by default the client has no elicitation.
            more: Further arguments of the scenario.
        """
        reached = {"url": server.url, "token": TOKEN} if self.over_http else {"url": ""}
        command = [sys.executable, "-m", "hermes_env", "mcp", "--cwd", str(cwd)]
        given = {"scenario": scenario, "sdk": self.sdk, "command": command, "env": dict(variables), "answer": answer}
        given |= {**reached, "packages": str(node.packages()) if self.sdk else "", **more}
        done = subprocess.run(
            [*self.program(), json.dumps(given)], capture_output=True, text=True, check=False, timeout=PATIENCE
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert "Traceback" not in done.stderr, done.stderr
        return json.loads(done.stdout)


def _python() -> list[str]:
    return [sys.executable, str(node.HERE / "python_client.py")]


def _typescript() -> list[str]:
    return [str(node.node()), str(node.HERE / "typescript_client.mjs")]


def clients() -> list[Any]:
    """Return the clients for this machine, as parameters of tests."""
    found = [OfficialClient(f"Python {way}", _python, over_http=way == "HTTP") for way in ("stdio", "HTTP")]
    if not node.missing():
        for sdk in (1, 2):
            for way in ("stdio", "HTTP"):
                found.append(OfficialClient(f"TypeScript {sdk} {way}", _typescript, way == "HTTP", sdk))
    return [pytest.param(client, id=client.name) for client in found]
