"""A container of a Docker engine."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from typing import TYPE_CHECKING

from benchmarks.engine import TARGET_FILE, Copying, Engine, Goals, rows_of
from benchmarks.images import docker_image
from benchmarks.measure import UnavailableError
from benchmarks.peers.installation import folder_with
from benchmarks.peers.peer import HERMES_AGENT, OPENAI_AGENTS, SWE_REX, Package, opened_peers
from benchmarks.table import Row
from environments import BaseEnvironment, create_environment

if TYPE_CHECKING:
    from docker import APIClient

HEADER = 8
"""Bytes in front of each piece of output on an exec's stream."""


class ExecProcess:
    """A process in a container on a raw exec stream."""

    def __init__(self, api: APIClient, container: str, program: str) -> None:
        made = api.exec_create(container, [program], stdin=True)
        self._opened = api.exec_start(made["Id"], socket=True)
        self._socket: socket.socket = self._opened._sock  # type: ignore[union-attr]

    def round_trip(self, line: bytes) -> bytes:
        """Send a line and wait for the answer."""
        self._socket.sendall(line)
        answer = b""
        while not answer.endswith(b"\n"):
            answer += self._socket.recv(4096)
        return answer[HEADER:]

    def close(self) -> None:
        """Close the process's input."""
        self._socket.shutdown(socket.SHUT_WR)
        self._opened.close()
        self._socket.close()


def rows() -> Iterator[Row]:
    """Measure all operations in a container."""
    with create_environment("docker", image=docker_image()) as env:
        container = container_of(env)
        asked, missing = peer_arguments(
            env.execute("python3 -c 'import sys; print(*sys.version_info[:2], sep=\".\")'").output
        )
        import docker

        api = docker.APIClient()
        bash, cat = ExecProcess(api, container, "bash"), ExecProcess(api, container, "cat")

        def copy(source: str, target: str) -> None:
            subprocess.run(["docker", "cp", source, target], capture_output=True, check=True)

        try:
            with opened_peers(asked) as (peers, not_opened):
                yield from rows_of(
                    Engine(
                        name="Docker",
                        env=env,
                        bash=bash,
                        cat=cat,
                        clients={
                            "`docker exec`": lambda words: subprocess.run(
                                ["docker", "exec", container, *words], capture_output=True, check=True
                            ),
                        },
                        peers=peers,
                        missing={**missing, **not_opened},
                        goals=Goals(command=2.5, call=1.2, queued_call=15, script=1.8, script_with_call=2.5),
                        copying=Copying(
                            lambda file: copy(str(file), f"{container}:{TARGET_FILE}"),
                            lambda file: copy(f"{container}:{TARGET_FILE}", str(file)),
                            "`docker cp`",
                        ),
                    )
                )
        finally:
            bash.close()
            cat.close()
            api.close()


def container_of(env: BaseEnvironment) -> str:
    """Return the id of an environment's container."""
    return env.execute("cat /etc/hostname").output.strip()


def peer_arguments(python: str) -> tuple[dict[Package, dict[str, object]], dict[str, str]]:
    """Return the arguments of peers for a container, and the reasons for missing peers.

    Args:
        python: The version of the Python in the image.
    """
    place: dict[str, object] = {"place": "docker", "image": docker_image()}
    asked: dict[Package, dict[str, object]] = {HERMES_AGENT: place, OPENAI_AGENTS: place}
    try:
        server = folder_with("swe_rex_server", SWE_REX.requirements, python.strip())
    except UnavailableError as error:
        return asked, {SWE_REX.name: str(error)}
    return {**asked, SWE_REX: {**place, "server": str(server)}}, {}
