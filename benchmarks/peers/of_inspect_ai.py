"""inspect_ai: the sandbox on this machine, and `sandbox_service` for calls from the sandbox."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Coroutine
from typing import Any

from benchmarks.peers.scripts import PRINTING, TIMED
from benchmarks.peers.serving import serve

SERVICE = "benchmark"
PLACE = f"/var/tmp/sandbox-services/{SERVICE}"
"""The folder of the service."""
_IMPORT = f"""
import sys
sys.path.append("{PLACE}")
from {SERVICE} import call_{SERVICE}
def call():
    return call_{SERVICE}("noop")
"""
_loop = asyncio.new_event_loop()
_opened: list[Any] = []


def _run(work: Coroutine[Any, Any, Any]) -> Any:
    return _loop.run_until_complete(work)


def open_place(place: str) -> None:
    """Make a sandbox on this machine. Other sandboxes need programs that are not installed."""
    from inspect_ai.util._sandbox.local import LocalSandboxEnvironment

    assert place == "local"
    made = _run(LocalSandboxEnvironment.sample_init(SERVICE, None, {}))
    _opened.append(made["default"])


async def _exec(*words: str) -> str:
    done = await _opened[0].exec(list(words))
    if not done.success:
        raise RuntimeError(done.stderr)
    return str(done.stdout)


def command(text: str = "true") -> int:
    """Run a command, and return the length of its output."""
    return len(_run(_exec("bash", "-c", text)))


def script() -> str:
    """Run a script."""
    return str(_run(_exec("python3", "-c", PRINTING)))


async def _served(code: str) -> str:
    import anyio
    from inspect_ai.util import sandbox_service

    async def noop() -> None:
        """Do nothing."""

    ended, started = False, anyio.Event()
    async with anyio.create_task_group() as tasks:

        async def service() -> None:
            await sandbox_service(
                SERVICE, {"noop": noop}, lambda: ended, _opened[0], polling_interval=0, started=started
            )

        tasks.start_soon(service)
        await started.wait()
        try:
            output = await _exec("python3", "-c", code)
        finally:
            ended = True
    return output


def script_with_call() -> str:
    """Run a script that calls a method of a service, beside the service."""
    return str(_run(_served(_IMPORT + "call()\nprint(0)")))


def tool_calls(calls: int) -> Any:
    """Return the seconds of each call, as measured in the script."""
    return json.loads(_run(_served(_IMPORT + TIMED.format(calls=calls))))


def close() -> None:
    """Remove the sandbox."""
    from inspect_ai.util._sandbox.local import LocalSandboxEnvironment

    _run(LocalSandboxEnvironment.sample_cleanup(SERVICE, None, {"default": _opened[0]}, False))
    shutil.rmtree(PLACE, ignore_errors=True)


if __name__ == "__main__":
    serve(
        {
            "open": open_place,
            "command": command,
            "script": script,
            "script_with_call": script_with_call,
            "tool_calls": tool_calls,
            "close": close,
        }
    )
