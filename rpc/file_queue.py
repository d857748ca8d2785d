"""The transport for every backend: requests and answers are files in the target."""

from __future__ import annotations

import base64
import contextlib
import math
import secrets
import shlex
import threading
from functools import partial

from environments.base import BaseEnvironment
from environments.cancellation import CancelScope
from environments.errors import TerminalError
from environments.log import logger
from rpc.collecting import CollectedRequests, GarbledError, collecting_command
from rpc.dispatcher import Dispatcher
from rpc.workers import Workers

ECHO_BYTES = 20 * 1024
"""Answers up to this size go out as base64 in one command, which stays under the 32 KB above which environments
ship a command as a file; larger answers are written as a file at once."""
LONGEST_TURN_SECONDS = 1.0
"""How long an answer waits until the one before has been put in its place, which takes a millisecond."""
WRITE_ATTEMPTS = 3
COLLECT_ATTEMPTS = 5
CLOSE_GRACE_SECONDS = 2.0
_PAUSE_SECONDS = 0.2

_log = logger(__name__)


class FileQueueTransport:
    """Takes requests from scripts in any environment.

    A script renames its request into place as `req_000001` and waits for `res_000001`. One command waits in
    the target for requests and brings each as it comes, or, where a stream is made of short commands, all there are;
    each is dispatched once, by one of a few threads. While these are all busy, further requests stay in the target.
    """

    def __init__(
        self, dispatcher: Dispatcher, env: BaseEnvironment, queue: str, *, streams: bool | None = None
    ) -> None:
        """Use a directory of the target.

        Args:
            dispatcher: What answers the requests.
            env: Where the script runs.
            queue: The queue's directory there, readable for the script's user alone; its maker removes it. A pipe
                `wake` in it has the collector told of requests; without one it looks every 0.05 s.
            streams: Whether what a command prints comes as it is printed, at no cost: one then goes on to bring
                requests. Otherwise each ends when it has brought some. None is as the environment says.
        """
        self._dispatcher = dispatcher
        self._env = env
        self._queue = queue
        self._streams = streams
        self._placing = threading.Lock()
        self._scope = CancelScope()
        self._closing = threading.Event()
        self._collector: threading.Thread | None = None
        self._workers = Workers()
        self.failure: Exception | None = None
        """Why no more requests are taken, when it wasn't `close` that ended it."""

    def start(self) -> None:
        """Begin to collect. The queue is there, or is just being made."""
        self._collector = threading.Thread(target=self._collect_all, name="hermes-file-queue-poll", daemon=True)
        self._collector.start()

    def close(self) -> None:
        """End as `UnixSocketTransport.close` does."""
        if self._closing.is_set():
            return
        self._closing.set()
        self._workers.close()
        if self._collector is not None:
            self._stop_collector(self._collector)
        self._workers.join(CLOSE_GRACE_SECONDS)

    def _stop_collector(self, collector: threading.Thread) -> None:
        if collector.is_alive():
            # Opened for reading too, since opening it only for writing waits for a reader that may be gone. Without it,
            # the queue may be one that is just being removed.
            wake = "if [ -p wake ]; then echo stop 1<>wake; else sleep 0.1; [ -e stop ]; fi"
            with contextlib.suppress(TerminalError):
                told = self._env.internal.execute(f"cd {shlex.quote(self._queue)} && : >stop && {wake}", timeout=5)
                if told.ok:
                    collector.join(CLOSE_GRACE_SECONDS)
        # Ends the command where the queue itself is gone; nothing may start in the scope from here on.
        self._scope.cancel()
        collector.join(CLOSE_GRACE_SECONDS)

    def _collect_all(self) -> None:
        try:
            with self._scope.active():
                self._collect_until_closed()
        except Exception as error:
            if not self._closing.is_set():
                self.failure = error
                _log.warning("tool calls are no longer taken: %s", type(error).__name__)

    def _collect_until_closed(self) -> None:
        taken: list[str] = []
        failed = 0
        while not self._closing.is_set():
            brought = self._collect(taken)
            if brought is not None:
                taken, failed = brought, 0
                continue
            failed += 1
            if failed >= COLLECT_ATTEMPTS:
                raise TerminalError(f"tool calls can no longer be collected from {self._queue}")
            self._closing.wait(_PAUSE_SECONDS)

    def _collect(self, taken: list[str]) -> list[str] | None:
        """Have what one command brings answered, as it comes, and return its numbers; None if it brought nothing.

        Args:
            taken: What was brought by the one before.
        """
        goes_on = self._env.capabilities.duplex if self._streams is None else self._streams
        nonce = secrets.token_hex(16)
        collected = CollectedRequests(nonce)
        brought: list[str] = []

        def take(piece: str) -> None:
            for number, line in collected.feed(piece):
                brought.append(number)
                # One that was brought before is still there only because its file could not be removed.
                if number not in taken:
                    self._workers.put(len(line), partial(self._call, number, line))

        command = collecting_command(self._queue, taken, nonce, goes_on)
        with contextlib.suppress(GarbledError):
            self._env.internal.execute(command, timeout=math.inf, on_output=take)
        return brought if brought or collected.ended else None

    def _call(self, number: str, line: bytes) -> None:
        answer = self._dispatcher.dispatch(line)
        if not self._closing.is_set():
            self._write_answer(number, answer)

    def _write_answer(self, number: str, answer: bytes) -> None:
        for attempt in range(1, WRITE_ATTEMPTS + 1):
            try:
                self._write_once(number, answer)
            except TerminalError as error:
                _log.warning("answer %s not written, attempt %d: %s", number, attempt, type(error).__name__)
                if self._closing.wait(_PAUSE_SECONDS):
                    return
            else:
                return
        _log.error("answer %s could not be written; the script is told so", number)
        # An empty file needs no space on a full disk, and ends the script's waiting with an error.
        with contextlib.suppress(TerminalError):
            self._write_once(number, b"")

    def _write_once(self, number: str, answer: bytes) -> None:
        file = f"res_{number}"
        # A script that waits at a pipe of its own is told, and renames the answer itself, which costs no process.
        told = f": <>claim_{number}"
        placing = f"if [ -p claim_{number} ]; then {told}; else exec mv -f {file}.tmp {file}; fi"
        if len(answer) > ECHO_BYTES:
            self._env.write_bytes(f"{self._queue}/{file}.tmp", answer)
        elif answer:
            # The script decodes it: a program here for that would double the time a call takes.
            placing = f"echo {base64.b64encode(answer).decode()} >{file}.tmp && {placing}"
        else:
            placing = f"rm -f {file}.tmp && : >{file}"
        # One after the other they need one shell. Whoever is held up for long goes on with another.
        alone = self._placing.acquire(timeout=LONGEST_TURN_SECONDS)
        try:
            written = self._env.internal.execute(f"cd {shlex.quote(self._queue)} && {placing}", timeout=60)
        finally:
            if alone:
                self._placing.release()
        if not written.ok:
            raise TerminalError(f"exit code {written.exit_code}")
