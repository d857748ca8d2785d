"""The transport for backends with a duplex stream: a socket in the target, joined to us over one stream."""

from __future__ import annotations

import contextlib
import shlex
import threading
from collections.abc import Callable
from functools import partial

from environments.base import BaseEnvironment
from environments.errors import TerminalError
from environments.loop import current, spawn
from environments.output import Channel, Fed
from environments.process import Process
from rpc.dispatcher import Dispatcher
from rpc.messages import MAX_MESSAGE_BYTES, Response, too_large
from rpc.relay_lines import RelayedRequest, RelayLines
from rpc.target_source import target_source
from rpc.workers import MAX_BYTES, MAX_JOBS, Workers

CONNECT_SECONDS = 20.0
"""How long a script's first call waits for the relay, which starts at the same time as the script."""
CLOSE_GRACE_SECONDS = 2.0
RELAY_GRACE = 0.2
"""Seconds between TERM and KILL for a relay that does not end when it is told to: it has nothing to tidy up."""


class RelayTransport:
    """Takes requests from scripts in any environment that can run a process with a duplex stream.

    The loop thread takes them, a few threads answer, and the loop thread sends the answers.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        env: BaseEnvironment,
        directory: str,
        python: str,
        before: str = "",
        waking: str = "",
    ) -> None:
        """Use a socket in a directory of the target.

        Args:
            dispatcher: What answers the requests.
            env: Where the script runs.
            directory: An absolute path there, which only the script's user can enter; its maker removes it.
            python: Shell text: a Python there, 3.8 or later.
            before: Shell text that comes first: it makes the directory, or finds out what that Python is.
            waking: The name of a pipe in the directory, if the script is to ask there for the relay, see `wake`: most
                scripts that do not so much as name the tools' module have no use for one.
        """
        self._dispatcher = dispatcher
        self._env = env
        self._directory = directory
        self._python = python
        self._before = before
        self._waking = waking
        self._may_remove = False
        self._process: Process | None = None
        self._requests = _Requests(dispatcher.prefix, self._take)
        self._workers = Workers()
        self._start_lock = threading.Lock()
        self._closing = threading.Event()

    @property
    def client_source(self) -> str:
        """The script's side, as in `Transport`."""
        return target_source(
            "unix_socket_client.py",
            _SOCKET_PATH=f"{self._directory}/socket",
            _CONNECT_SECONDS=CONNECT_SECONDS,
            _WAKING=f"{self._directory}/{self._waking}" if self._waking else "",
        )

    def start(self) -> None:
        """Start the relay, without waiting until it listens, unless the script asks for it.

        Raises:
            TerminalError: It could not be started.
        """
        if not self._waking:
            self._start()

    @property
    def waits_for_script(self) -> bool:
        """Whether the relay is started only when the script asks for it."""
        return bool(self._waking)

    def wake(self) -> None:
        """Start the relay now that the script has asked for it. This does not wait, as whoever reads that may not."""
        threading.Thread(target=self._start_awake, name="hermes-rpc-call", daemon=True).start()

    def _start_awake(self) -> None:
        with self._start_lock, contextlib.suppress(TerminalError):  # the script's call then says that nothing listens
            if not self._closing.is_set() and not self._process:
                self._start()

    def _start(self) -> None:
        program = target_source(
            "relay_program.py",
            SOCKET_PATH=f"{self._directory}/socket",
            MAX_MESSAGE_BYTES=MAX_MESSAGE_BYTES,
            TOO_LARGE=Response("", error=too_large()).encode().decode().rstrip("\n"),
        )
        # Without the site module, which the relay has no use for, Python starts in half the time.
        command = f"{self._before}exec {self._python} -IS -c {shlex.quote(f'{program}main()')}"
        self._process = self._env.internal.start(command, stdin="consumed", sink=self._requests, grace=RELAY_GRACE)

    def remove_directory(self) -> None:
        """Have the relay remove the directory as it ends, which is one round trip less. `removed` says if it has."""
        self._may_remove = True

    @property
    def removed(self) -> bool:
        """Whether the relay has removed the directory."""
        return self._requests.removed

    def close(self) -> None:
        """End as `Transport.close` says."""
        with self._start_lock:
            if self._closing.is_set():
                return
            self._closing.set()
            process = self._process
        if process is None:
            return
        self._workers.close()
        current().soon(self._requests.end, b"-\n" if self._may_remove else b"\n")
        with contextlib.suppress(TerminalError):
            if process.wait(CLOSE_GRACE_SECONDS) != 0:
                process.kill()
        self._workers.join(CLOSE_GRACE_SECONDS)

    def _take(self, request: RelayedRequest) -> None:
        """Have a request answered. Called on the loop thread."""
        self._workers.begin(partial(self._answer, request))

    def _answer(self, request: RelayedRequest) -> None:
        dispatcher, dropped = self._dispatcher, request.dropped
        answer = dispatcher.refusal(dropped) if dropped else dispatcher.dispatch(request.line)
        current().soon(self._requests.answer, request, answer)


class _Requests:
    """Takes what the relay says, and sends it the answers, both on the loop thread. What is no relay's ends it.

    While many requests are under way, or large ones, the relay is not read, and the script has to wait.
    """

    separate = True

    def __init__(self, prefix: bytes, take: Callable[[RelayedRequest], None]) -> None:
        self._lines = RelayLines(prefix)
        self._take = take
        self._relay: Fed
        self._jobs = self._bytes = 0
        self._is_paused = self._is_at_end = False
        self.removed = False

    def attach(self, process: Fed) -> None:
        """Note the relay, see `LoopSink`."""
        self._relay = process

    def add(self, channel: Channel, data: bytes) -> None:
        """Take the next bytes. On standard error is said that the directory is gone, and nothing else of any use."""
        if channel is Channel.STDERR:
            self.removed = data == b"-"
            return
        for request in () if self._is_at_end else self._lines.feed(data):
            self._jobs += 1
            self._bytes += request.size
            self._take(request)
        if self._is_full:
            self._is_paused = True
            self._relay.pause()

    @property
    def _is_full(self) -> bool:
        return self._jobs >= MAX_JOBS or self._bytes >= MAX_BYTES

    def answer(self, request: RelayedRequest, answer: bytes) -> None:
        """Send an answer. Nothing may be written behind the line that ends the relay: a shell would read it."""
        if self._is_at_end:
            return
        with contextlib.suppress(BrokenPipeError):
            self._relay.feed(request.connection + b" " + answer)
        if self._relay.is_fed:
            self._answered(request)
        else:
            spawn(self._answered_when_sent(request))

    async def _answered_when_sent(self, request: RelayedRequest) -> None:
        await self._relay.fed()
        self._answered(request)

    def _answered(self, request: RelayedRequest) -> None:
        self._jobs -= 1
        self._bytes -= request.size
        if self._is_paused and not self._is_full:
            self._is_paused = False
            self._relay.resume()

    def end(self, line: bytes) -> None:
        """Send the line that ends the relay, and read on to its end."""
        self._is_at_end, self._jobs, self._bytes = True, 0, 0
        with contextlib.suppress(BrokenPipeError):
            self._relay.feed(line)
        self._relay.resume()
