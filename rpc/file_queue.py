"""The transport for every backend: requests and answers are files in the target."""

from __future__ import annotations

import base64
import contextlib
import math
import secrets
import shlex
import threading
from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

from environments.base import BaseEnvironment
from environments.cancellation import CancelScope
from environments.errors import TerminalError
from environments.log import logger
from rpc.call_threads import CallThreads
from rpc.dispatcher import Dispatcher
from rpc.messages import MAX_MESSAGE_BYTES

AT_ONCE = 16
"""How many requests one command brings at most, where it brings what it finds at one look and ends."""
IN_ALL = 256
"""How many one command brings at most, where it goes on looking: what it has brought is noted as long as it runs."""
SMALL_REQUEST = 8 * 1024
"""Bytes up to which bash reads a request itself, which is quicker than a program that does."""
MAX_COLLECTED = MAX_MESSAGE_BYTES + 1024 * 1024
"""Characters that one request may have on its way here."""
_LONGEST_NUMBER = 300

# - Names that aren't numbers are passed over: printing one would only bring it back for ever.
# - What isn't a regular file comes as an empty request, so that it gets its error answer, and is removed.
# - The pipe is opened before the first scan: a script renames its request into place before it writes to the
#   pipe, so whatever the scan misses wakes the read. `read -t`, which only bash has, is a net under that.
# - `stop` is told through the pipe and is a file, for where there is none: a queue that is being removed may lose the
#   file before it is looked for.
# - A process costs more than all else here, so that none is started for a request in bash, and `head` in other shells.
# - Descriptors from 7 on belong to the shell that runs this.
_COLLECT = """\
cd {queue} && {{
rm -rf {files} || sleep 0.5
LC_ALL=C
if [ -p wake ]; then exec 5<>wake; hermes_wake=y; else hermes_wake=; fi
hermes_taken=' {numbers} '
hermes_room={room}
while [ "$hermes_room" -gt 0 ] && [ ! -e stop ] && [ . -ef {queue} ]; do
  hermes_there=' ' hermes_before=$hermes_room
  for hermes_file in req_*; do
    hermes_number=${{hermes_file#req_}}
    case $hermes_number in '' | *[!0123456789]*) continue ;; esac
    [ -e "$hermes_file" ] || [ -L "$hermes_file" ] || continue
    hermes_there="$hermes_there$hermes_number "
    case $hermes_taken in *" $hermes_number "*) continue ;; esac
    hermes_line= hermes_large=
    if [ ! -f "$hermes_file" ]; then rm -rf "$hermes_file"
    elif [ -z "$BASH_VERSION" ]; then hermes_large=y
    else
      IFS= read -r -N {small} hermes_line <"$hermes_file"
      [ "${{#hermes_line}}" -lt {small} ] || hermes_large=y
    fi 2>/dev/null
    if [ -z "$hermes_large" ]; then
      printf '\\n%s %s\\n%s\\n%s .\\n' {nonce} "$hermes_number" "$hermes_line" {nonce}
      hermes_room=$((hermes_room - 1))
    else
      printf '\\n%s %s\\n' {nonce} "$hermes_number"
      head -c {limit} "$hermes_file" 2>/dev/null
      printf '\\n%s .\\n' {nonce}
      hermes_room=$((hermes_room - {room} / {at_once}))
    fi
    [ "$hermes_room" -gt 0 ] || break
  done
  hermes_taken=$hermes_there
  if [ "$hermes_room" -lt "$hermes_before" ]; then {having_found}
  elif [ -z "$hermes_wake" ]; then sleep 0.05 2>/dev/null || sleep 1
  else
    hermes_line=
    if [ -n "$BASH_VERSION" ]; then read -r -t 30 -u 5 hermes_line; else read -r hermes_line <&5; fi
    [ "$hermes_line" != stop ] || break
  fi
done
printf '\\n%s end\\n' {nonce}
}}
"""


def collecting_command(queue: str, already_received: Sequence[str], nonce: str, streams: bool) -> str:
    """Return the command that waits for requests, and prints them.

    Args:
        queue: The directory of the request files.
        taken: Numbers of requests that were brought before; their files are removed first. Because that is
            only done now, a request that got lost on its way here is still there.
        nonce: A word that tells what the command says itself from what requests hold.
        goes_on: Whether it waits for more once it has brought something, or ends then.
    """
    return _COLLECT.format(
        queue=shlex.quote(queue),
        files=" ".join(f"req_{number}" for number in already_received) or "req_",
        numbers=" ".join(already_received),
        nonce=nonce,
        limit=MAX_MESSAGE_BYTES + 1,
        small=SMALL_REQUEST,
        room=IN_ALL if streams else AT_ONCE,
        at_once=AT_ONCE,
        having_found=":" if streams else "break",
    )


class CollectedRequest(NamedTuple):
    """A request as it was brought."""

    number: str
    line: bytes


class GarbledError(TerminalError):
    """What was brought is not what the collecting command prints."""


class CollectedRequests:
    """Cuts what the collecting command prints into requests, without any I/O.

    A script may write to where the command prints, so that nothing of it is trusted.

    Args:
        nonce: The word that the command was given.

    Attributes:
        ended: Whether the command has said that it ends.
    """

    def __init__(self, nonce: str) -> None:
        self.ended = False
        self._marker = f"\n{nonce} "
        self._number: str | None = None
        self._parts: list[str] = []
        self._size = 0
        self._rest = ""

    def feed(self, piece: str) -> Iterator[CollectedRequest]:
        """Take what was printed next, and go through the requests that it completes.

        Raises:
            GarbledError: It is no request of ours, or too much for one.
        """
        text = self._rest + piece
        while (at := text.find(self._marker)) >= 0:
            word, newline, behind = text[at + len(self._marker) :].partition("\n")
            if len(word) > _LONGEST_NUMBER:
                raise GarbledError
            if not newline:
                break
            self._append(text[:at])
            if self._number is not None and word == ".":
                yield CollectedRequest(self._number, "".join(self._parts).encode())
            self.ended = self.ended or word == "end"
            # It becomes a part of shell text.
            self._number = word if word.isascii() and word.isdigit() else None
            self._parts, self._size = [], 0
            text = behind
        else:
            at = max(0, len(text) - len(self._marker) + 1)
        self._append(text[:at])
        self._rest = text[at:]

    def _append(self, text: str) -> None:
        """Keep a part of a request. What stands between two of them is nobody's."""
        if self._number is None:
            return
        self._parts.append(text)
        self._size += len(text)
        if self._size > MAX_COLLECTED:
            raise GarbledError


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
        self._workers = CallThreads()
        self.failure: Exception | None = None
        """Why no more requests are taken, when it wasn't `close` that ended it."""

    def start(self) -> None:
        """Begin to collect. The queue is there, or is just being made."""
        self._collector = threading.Thread(target=self._collect_in_thread, name="hermes-file-queue-poll", daemon=True)
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
                stopped = self._env.internal.execute(f"cd {shlex.quote(self._queue)} && : >stop && {wake}", timeout=5)
                if stopped.ok:
                    collector.join(CLOSE_GRACE_SECONDS)
        # Ends the command where the queue itself is gone; nothing may start in the scope from here on.
        self._scope.cancel()
        collector.join(CLOSE_GRACE_SECONDS)

    def _collect_in_thread(self) -> None:
        try:
            with self._scope.active():
                self._collect_until_closed()
        except Exception as error:
            if not self._closing.is_set():
                self.failure = error
                _log.warning("tool calls are no longer taken: %s", type(error).__name__)

    def _collect_until_closed(self) -> None:
        already_received: list[str] = []
        failed = 0
        while not self._closing.is_set():
            received = self._collect(already_received)
            if received is not None:
                already_received, failed = received, 0
                continue
            failed += 1
            if failed >= COLLECT_ATTEMPTS:
                raise TerminalError(f"tool calls can no longer be collected from {self._queue}")
            self._closing.wait(_PAUSE_SECONDS)

    def _collect(self, already_received: list[str]) -> list[str] | None:
        """Have what one command brings answered, as it comes, and return its numbers; None if it brought nothing.

        Args:
            taken: What was brought by the one before.
        """
        streams = self._env.capabilities.duplex if self._streams is None else self._streams
        nonce = secrets.token_hex(16)
        collected = CollectedRequests(nonce)
        received: list[str] = []

        def take(piece: str) -> None:
            for number, line in collected.feed(piece):
                received.append(number)
                # One that was brought before is still there only because its file could not be removed.
                if number not in already_received:
                    self._workers.put(len(line), partial(self._call, number, line))

        command = collecting_command(self._queue, already_received, nonce, streams)
        with contextlib.suppress(GarbledError):
            self._env.internal.execute(command, timeout=math.inf, on_output=take)
        return received if received or collected.ended else None

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
        wake_script = f": <>claim_{number}"
        placing = f"if [ -p claim_{number} ]; then {wake_script}; else exec mv -f {file}.tmp {file}; fi"
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
