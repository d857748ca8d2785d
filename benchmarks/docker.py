"""A container of a Docker engine."""

from __future__ import annotations

import io
import socket
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.engine import Engine, rows_of
from benchmarks.table import Row
from environments import create_environment, load_settings

if TYPE_CHECKING:
    from docker import APIClient

IMAGE = "e2e-python:bookworm"
"""The image that e2e/setup makes, where the settings name none."""
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
        """Let the process see the end of its input."""
        self._socket.shutdown(socket.SHUT_WR)
        self._opened.close()


def rows() -> Iterator[Row]:
    """Measure everything in a container."""
    with create_environment("docker", image=load_settings("docker").docker.image or IMAGE) as env:
        container = env.execute("cat /etc/hostname").output.strip()
        import docker

        api = docker.APIClient()
        bash, cat = ExecProcess(api, container, "bash"), ExecProcess(api, container, "cat")

        def put_archive(file: Path) -> None:
            archive = io.BytesIO()
            with tarfile.open(fileobj=archive, mode="w") as tar:
                tar.add(file, file.name)
            api.put_archive(container, "/var/tmp", archive.getvalue())

        try:
            yield from rows_of(
                Engine(
                    name="Docker",
                    env=env,
                    bash=bash,
                    cat=cat,
                    each=lambda words: ["docker", "exec", container, *words],
                    each_name="`docker exec`",
                    put=put_archive,
                    put_name="a tar to put_archive",
                    command_goal=3.5,
                )
            )
        finally:
            bash.close()
            cat.close()
            api.close()
