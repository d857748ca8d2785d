"""The official conformance suite on our server over HTTP."""

from __future__ import annotations

import json
import subprocess
import tomllib
from pathlib import Path

import pytest
from targets.mcp_server import TOKEN, WebServer

from mcp_clients import node

pytestmark = [pytest.mark.xdist_group("mcp clients"), pytest.mark.timeout(600)]  # the first run installs the suite


def test_the_scenarios_that_apply_pass_and_no_others(web_server: WebServer, tmp_path: Path) -> None:
    suite = node.packages() / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
    # Node resolves an import from the directory of the importing file.
    preload = node.packages() / "conformance_preload.mjs"
    preload.write_text((node.HERE / preload.name).read_text())
    argv = [str(node.node()), "--import", preload.as_uri(), str(suite), "server", "--suite", "all"]
    argv += ["--url", web_server.url, "--output-dir", str(tmp_path)]
    done = subprocess.run(
        argv,
        env={**node.variables(), "HERMES_MCP_TOKEN": TOKEN},
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    outcomes = {file.parent.name: json.loads(file.read_text()) for file in tmp_path.glob("*/checks.json")}
    assert len(outcomes) > 30, done.stdout + done.stderr
    passed = {_scenario(name) for name, checks in outcomes.items() if _has_passed(checks)}
    not_applying = tomllib.loads((node.HERE / "conformance_baseline.toml").read_text())
    failed = {_scenario(name): checks for name, checks in outcomes.items() if not _has_passed(checks)}
    unexpected = {name: _errors(checks) for name, checks in failed.items() if name not in not_applying}
    assert not unexpected
    assert not passed & not_applying.keys(), "these apply by now; take them out of the baseline"
    assert not not_applying.keys() - failed.keys(), "the suite has these no more; take them out of the baseline"


def _scenario(directory: str) -> str:
    """Return the scenario of a directory of results, such as server-NAME-2026-11-27T11-53-35-193Z."""
    return directory.removeprefix("server-").rsplit("-", 6)[0]


def _has_passed(checks: list[dict[str, str]]) -> bool:
    states = [check["status"] for check in checks]
    return "SUCCESS" in states and "FAILURE" not in states


def _errors(checks: list[dict[str, str]]) -> list[str]:
    return [check["errorMessage"] for check in checks if "errorMessage" in check]
