"""The Python that is kept ready in a target, from which scripts are forked."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from code_execution import execute_code
from code_execution.interpreter import Pythons
from code_execution.warm.asking import Server
from code_execution.warm.servers import WarmServers
from code_execution.warm.warmth import PATIENCE, Warmth
from environments import BaseEnvironment
from environments.conformance.check import wait_until


def server_of(env: BaseEnvironment) -> Server:
    """Return the server of an environment, once it is ready."""
    servers = env.attachments.get(WarmServers)
    found: list[Server] = []

    def is_ready() -> bool:
        execute_code("pass", env=env)
        found[:] = [server for kind in list(servers._kept) if (server := servers.ready(kind))]
        return found != []

    assert wait_until(is_ready, 60)
    return found[0]


def is_forked(env: BaseEnvironment) -> bool:
    """Return whether a script is forked from a server, and so not run by its shell itself."""
    result = execute_code("import os; print(open(f'/proc/{os.getppid()}/comm').read())", env=env)
    assert result.status == "success", result
    return "sh" not in result.output


def have_each_script_wait_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the first script in an environment forked, too, for which it takes longer than without."""
    init = Warmth.__init__

    def wait_and_init(
        self: Warmth, env: BaseEnvironment, pythons: Pythons, session: Mapping[str, str], *, asks: bool
    ) -> None:
        init(self, env, pythons, session, asks=False)
        if asks and self._may_ask():
            self.see_to()
            kept = env.attachments.get(WarmServers)._kept.get(self._kind)
            if kept and kept.starting:
                kept.starting.ended.wait(PATIENCE)
        init(self, env, pythons, session, asks=asks)

    monkeypatch.setattr(Warmth, "__init__", wait_and_init)
