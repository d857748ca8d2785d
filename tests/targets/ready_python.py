"""The Python that is kept ready in a target, from which scripts are forked."""

from __future__ import annotations

from code_execution import execute_code
from code_execution.warm.asking import Server
from code_execution.warm.servers import WarmServers
from environments import BaseEnvironment
from environments.conformance.check import wait_until


def server_of(env: BaseEnvironment) -> Server:
    """Return the server of an environment, once it is ready."""
    servers = env.attachments.get(WarmServers)

    def ready() -> list[Server]:
        execute_code("pass", env=env)
        return [server for kind in list(servers._kept) if (server := servers.ready(kind))]

    assert wait_until(lambda: len(ready()) > 0)
    return ready()[0]


def is_forked(env: BaseEnvironment) -> bool:
    """Return whether a script is forked from a server, and so not run by its shell itself."""
    result = execute_code("import os; print(open(f'/proc/{os.getppid()}/comm').read())", env=env)
    assert result.status == "success", result
    return "sh" not in result.output
