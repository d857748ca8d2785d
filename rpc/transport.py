"""How a script's requests reach the dispatcher: what every transport offers."""

from __future__ import annotations

from typing import Protocol


class Transport(Protocol):
    """A way for requests to come in and for answers to go back."""

    @property
    def client_source(self) -> str:
        """Python 3.8 source for the stub, known once `start` has returned.

        It defines `_exchange(request_line: bytes) -> bytes`, which sends one request and returns its answer.
        Threads and forked children call it at the same time. It raises OSError when no answer can be had.
        """

    def start(self) -> None:
        """Begin to take requests.

        Raises:
            OSError: It could not be set up here.
            TerminalError: It could not be set up in the target.
        """

    def close(self) -> None:
        """Take no more requests, and end every thread, process and open file of the transport.

        Close the dispatcher first, so that handlers which wait for a command return. One that runs on
        regardless is waited for two seconds at most, and its answer is dropped. Safe to call twice.
        """
