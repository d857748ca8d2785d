"""`async def` tools of a script, on every transport."""

from __future__ import annotations

import asyncio
import threading

from code_execution import execute_code
from environments import BaseEnvironment


class _Client:
    """Belongs to the first event loop that uses it, like clients of services."""

    def __init__(self) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None
        self.cancelled = 0
        self.waits = threading.Event()

    async def fetch(self, page: int, wait: float = 0.0) -> dict[str, int]:
        """Fetch a page."""
        self.loop = self.loop or asyncio.get_running_loop()
        assert self.loop is asyncio.get_running_loop()
        if wait:
            self.waits.set()
        try:
            await asyncio.sleep(wait)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return {"page": page}


def async_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("hermes-async")]


def test_an_async_tool_is_called_like_any_other(env: BaseEnvironment, transport: str) -> None:
    code = """
import inspect, threading
from hermes_tools import fetch
print(inspect.signature(fetch), fetch.__doc__)
print(fetch(1), fetch(page=2))
answers = {}
threads = [threading.Thread(target=lambda n=n: answers.update({n: fetch(n)["page"]})) for n in range(5)]
for t in threads: t.start()
for t in threads: t.join()
print(answers == {n: n for n in range(5)}, "error" in fetch(1, wait="long"))
"""
    result = execute_code(code, env=env, tools={"fetch": _Client().fetch}, transport=transport)  # type: ignore[arg-type]
    assert result.output.splitlines() == [
        "(page: 'int', wait: 'float' = 0.0) -> 'dict[str, int]' Fetch a page.",
        "{'page': 1} {'page': 2}",
        "True True",
    ]
    assert async_threads() == []


def test_an_async_tool_is_cancelled_when_the_script_ends(env: BaseEnvironment, transport: str) -> None:
    client = _Client()
    code = "import hermes_tools; hermes_tools.fetch(1, wait=600)"
    tools = {"fetch": client.fetch}
    result = execute_code(code, env=env, tools=tools, interrupt=client.waits, transport=transport)  # type: ignore[arg-type]
    assert result.status == "interrupted"
    assert client.cancelled == 1
    assert async_threads() == []


def test_async_tools_work_within_a_running_event_loop(env: BaseEnvironment) -> None:
    async def main() -> str:
        code = "import hermes_tools; print(hermes_tools.fetch(7))"
        return execute_code(code, env=env, tools={"fetch": _Client().fetch}).output

    assert asyncio.run(main()) == "{'page': 7}\n"
