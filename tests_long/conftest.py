"""The third ring's report of tests that this machine cannot run."""

from __future__ import annotations

from typing import Any

from mcp_clients import node


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Report the tests that were not collected."""
    if problem := node.missing():
        terminalreporter.section("left out", yellow=True)
        terminalreporter.line(f"tests_long/mcp_clients: all that needs Node, as there is {problem}")
