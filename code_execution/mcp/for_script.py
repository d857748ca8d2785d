"""The servers of config.yaml that a script calls: started before it, side by side, and ended behind it."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import wait
from typing import TYPE_CHECKING

from code_execution.mcp.server_settings import McpServer
from code_execution.preparation import Preparation
from environments.errors import SettingsError
from environments.extras import missing_library

if TYPE_CHECKING:
    from anyio.from_thread import BlockingPortal

    from code_execution.mcp.calls import Function
    from code_execution.mcp.server import RunningServer

_LOOKS_AT_ALL = re.compile(r"\b(dir|help|getattr|vars)\s*\(\s*hermes_tools\s*[,)]")
"""A script that wants to know which tools there are."""


def called_by(code: str, servers: Mapping[str, McpServer]) -> dict[str, McpServer]:
    """Return the servers whose name a script's text holds, as the names of their tools begin with it."""
    if _LOOKS_AT_ALL.search(code):
        return dict(servers)
    return {name: server for name, server in servers.items() if re.search(rf"\b{re.escape(name)}(?=\b|_)", code)}


@contextlib.contextmanager
def running_servers(
    servers: Mapping[str, McpServer], before: Preparation, taken: Collection[str]
) -> Iterator[dict[str, Function]]:
    """Run servers for the block, on an event loop of their own, and yield their tools.

    Args:
        servers: By what their tools' names begin with.
        before: The script's time, which their start is part of.
        taken: Names that its other tools have.

    Raises:
        MissingExtraError: The MCP SDK is not installed.
        SettingsError: A tool can't be had under its name, or the settings of a server are not in order.
        TerminalError: A server could not be started, or nobody waits for it any more.
        OutOfTimeError: The script's time was over first.
    """
    if not servers:
        yield {}
        return
    names = ", ".join(sorted(servers))
    before.now(f"starting the MCP servers: {names}")
    try:
        from anyio.from_thread import start_blocking_portal

        from code_execution.mcp.server import RunningServer
    except ImportError:
        raise missing_library("code_execution.mcp_servers", "mcp", "mcp") from None
    with start_blocking_portal() as portal:
        running = [portal.call(RunningServer, name, server) for name, server in servers.items()]
        with _served(portal, running):
            found: dict[str, Function] = {}
            for each in running:
                for name, function in before.wait_for(each.ready).items():
                    if name in found or name in taken:
                        raise SettingsError(
                            f"an MCP server's tool would be {name!r} in the script, and so is another tool; give the "
                            "server another name in config.yaml, or leave the tool out by its tools:"
                        )
                    found[name] = function
            yield found


@contextlib.contextmanager
def _served(portal: BlockingPortal, running: list[RunningServer]) -> Iterator[None]:
    tasks = [portal.start_task_soon(each.serve) for each in running]
    try:
        yield
    finally:
        for each, task in zip(running, tasks, strict=True):
            if each.ready.done():
                portal.call(each.stop)
            else:
                task.cancel()
        wait(tasks)  # each has graces of its own, and no more
