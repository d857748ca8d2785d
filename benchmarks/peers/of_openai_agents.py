"""openai-agents: the sandboxes on this machine and in a container. A process in a sandbox cannot call tools."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from benchmarks.peers.scripts import PRINTING
from benchmarks.peers.serving import serve

_loop = asyncio.new_event_loop()
_opened: list[tuple[Any, Any]] = []


def _run(work: Coroutine[Any, Any, Any]) -> Any:
    return _loop.run_until_complete(work)


def open_place(place: str, image: str = "", make: bool = True) -> None:
    """Make a sandbox of a place, `local` or `docker`, or only prepare."""
    logging.disable(logging.ERROR)
    if make:
        _opened.append(_run(_started(place, image)))


async def _started(place: str, image: str) -> tuple[Any, Any]:
    client, options = _local() if place == "local" else _docker(image)
    session = await client.create(options=options)
    await session.start()
    return client, session


def _local() -> tuple[Any, Any]:
    from agents.sandbox.sandboxes.unix_local import UnixLocalSandboxClient, UnixLocalSandboxClientOptions

    return UnixLocalSandboxClient(), UnixLocalSandboxClientOptions()


def _docker(image: str) -> tuple[Any, Any]:
    import docker
    from agents.sandbox.sandboxes.docker import DockerSandboxClient, DockerSandboxClientOptions

    return DockerSandboxClient(docker.from_env()), DockerSandboxClientOptions(image)


async def _exec(*words: str) -> str:
    done = await _opened[0][1].exec(*words, shell=False)
    if done.exit_code != 0:
        raise RuntimeError(done.stderr.decode())
    return str(done.stdout.decode())


def command(text: str = "true") -> int:
    """Run a command, and return the length of its output."""
    return len(_run(_exec("bash", "-c", text)))


def script() -> str:
    """Run a script."""
    return str(_run(_exec("python3", "-c", PRINTING)))


def close() -> None:
    """Remove the sandbox."""
    for client, session in _opened:
        _run(session.aclose())
        _run(client.delete(session))


if __name__ == "__main__":
    serve({"open": open_place, "command": command, "script": script, "close": close})
