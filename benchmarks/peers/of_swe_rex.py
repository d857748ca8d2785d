"""SWE-ReX: a bash session of the runtime, in this process or behind the server in a container."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from benchmarks.peers.scripts import LASTING, PRINTING
from benchmarks.peers.serving import serve

SERVER = "/opt/swe-rex"
"""The folder of the server in a container."""
_loop = asyncio.new_event_loop()
_opened: list[Any] = []
_places: list[dict[str, str]] = []
_PYTHON, _PROMPT = "python", ">>> "
_pythons: list[str] = []


def _run(work: Coroutine[Any, Any, Any]) -> Any:
    return _loop.run_until_complete(work)


def open_place(place: str, image: str = "", server: str = "", make: bool = True) -> None:
    """Start the deployment for a place, and a session.

    Args:
        place: `local` or `docker`.
        image: The image of the container.
        server: A folder of this machine with the server, mounted into the container.
        make: False only prepares.
    """
    logging.disable(logging.ERROR)
    _places[:] = [{"place": place, "image": image, "server": server}]
    if make:
        _opened.append(_run(_started(**_places[0])))


async def _started(place: str, image: str, server: str) -> Any:
    from swerex.deployment.docker import DockerDeployment
    from swerex.deployment.local import LocalDeployment
    from swerex.runtime.abstract import CreateBashSessionRequest

    mounted = ["-v", f"{server}:{SERVER}:ro", "-e", f"PYTHONPATH={SERVER}", "-e", f"PATH={SERVER}/bin:/usr/bin:/bin"]
    deployment = (
        LocalDeployment() if place == "local" else DockerDeployment(image=image, pull="never", docker_args=mounted)
    )
    await deployment.start()
    await deployment.runtime.create_session(CreateBashSessionRequest())
    return deployment


def command(text: str = "true") -> int:
    """Run a command in the session, and return the length of its output."""
    from swerex.runtime.abstract import BashAction

    return len(_run(_opened[0].runtime.run_in_session(BashAction(command=text))).output)


def script() -> str:
    """Run a script beside the session."""
    from swerex.runtime.abstract import Command

    done = _run(_opened[0].runtime.execute(Command(command=["python3", "-c", PRINTING], check=True)))
    return str(done.stdout)


def python_session() -> None:
    """Run a script in a persistent Python: `python3` as the interactive command of a session."""
    _run(_in_python(LASTING))


async def _in_python(code: str) -> None:
    from swerex.runtime.abstract import BashAction, CreateBashSessionRequest

    runtime = _opened[0].runtime
    if not _pythons:
        await runtime.create_session(CreateBashSessionRequest(session=_PYTHON))
        _pythons.append(_PYTHON)
        await _in_python("python3 -q")
    action = BashAction(session=_PYTHON, command=code, is_interactive_command=True, expect=[_PROMPT])
    await runtime.run_in_session(action)


def life() -> None:
    """Start a deployment, run its first command, and stop it."""
    from swerex.runtime.abstract import BashAction

    async def whole() -> None:
        deployment = await _started(**_places[0])
        await deployment.runtime.run_in_session(BashAction(command="true"))
        await deployment.stop()

    _run(whole())


def close() -> None:
    """Stop everything."""
    for deployment in _opened:
        _run(deployment.stop())


if __name__ == "__main__":
    serve(
        {
            "open": open_place,
            "command": command,
            "script": script,
            "python_session": python_session,
            "life": life,
            "close": close,
        }
    )
