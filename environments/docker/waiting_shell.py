"""The shell that a container of ours runs, which is reached without starting a process there."""

from __future__ import annotations

import os
import select
import time
from typing import TYPE_CHECKING

from environments.docker.stream import FrameDecoder, take_over
from environments.errors import EnvironmentStartError
from environments.output import Channel

if TYPE_CHECKING:
    from docker import APIClient

LIMIT = 3.0
"""Seconds for it to run a text of builtins."""
WAKE_AGAIN = 0.05
"""Seconds behind which it is let go on once more, as it may have been stopped again."""
_READ_SIZE = 65536


class WaitingShell:
    """A connection to its input and output. Podman ends the input, and with it the container, when that is closed.

    Args:
        api: The engine.
        container: The container.
    """

    def __init__(self, api: APIClient, container: str) -> None:
        self.container = container
        self._api = api
        self._decoder = FrameDecoder()
        taken = take_over(api.attach_socket(container, {"stdin": 1, "stdout": 1, "stream": 1}))
        self._socket, self._early, self._close = taken

    def run(self, text: str) -> str | None:
        """Run shell text of builtins, and return what it prints; None if it does not come to its end.

        A command may have stopped the shell. The first process of the container cannot be stopped there, and hands a
        signal on to it.

        Raises:
            EnvironmentStartError: The container has ended.
            docker.errors.APIError: The engine refused.
            OSError: The link to it is gone.
        """
        word, output = os.urandom(8).hex(), b""
        self._socket.sendall(f"{text}\necho {word}\n".encode())
        deadline = time.monotonic() + LIMIT
        data, self._early = self._early, b""
        while time.monotonic() < deadline:
            output += b"".join(chunk.data for chunk in self._decoder.feed(data) if chunk.channel is Channel.STDOUT)
            found, mark, _ = output.partition(word.encode())
            if mark:
                return found.decode("utf-8", "replace")
            data = b""
            if not select.select([self._socket], [], [], WAKE_AGAIN)[0]:
                self._api.kill(self.container, "CONT")
            elif not (data := self._socket.recv(_READ_SIZE)):
                raise EnvironmentStartError("backend 'docker': the container has ended")
        return None

    def close(self) -> None:
        """Close the connection."""
        self._close()
