"""The file queue: the transport for every backend, with requests and answers as files in the target."""

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
"""Requests per collecting command that ends after the first batch."""
IN_ALL = 256
"""Requests per collecting command that stays; the command remembers each number as long as it runs."""
SMALL_REQUEST = 8 * 1024
"""Bytes up to which bash itself reads a request, which is faster than starting a program."""
MAX_COLLECTED = MAX_MESSAGE_BYTES + 1024 * 1024
"""Limit in characters for one request on the way here."""
_LONGEST_NUMBER = 300
ECHO_BYTES = 20 * 1024
"""Answers up to this size are sent as base64 in one command, below the 32 KB from which environments send a command as
a file. A larger answer is written as a file."""
WRITE_LOCK_SECONDS = 1.0
"""Longest wait, in seconds, until the preceding answer is in place. Usually 1 ms."""
WRITE_ATTEMPTS = 3
COLLECT_ATTEMPTS = 5
CLOSE_GRACE_SECONDS = 2.0
_PAUSE_SECONDS = 0.2

_log = logger(__name__)

# - Names that are no numbers are skipped: printing one would only collect it again and again.
# - An entry that is no regular file is sent as an empty request, so that it gets an error answer, and is removed.
# - The pipe is opened before the first scan. A script renames its request into place before it writes to the pipe, so a
#   request that the scan misses wakes the read. `read -t`, which only bash has, is a second safeguard.
# - `stop` is sent through the pipe and is also a file, for targets without pipes: a queue that is being removed may
#   lose the file first.
# - Starting a process costs more than the rest together. So bash starts none for a request, and other shells start
#   `head` alone.
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
    """Return the collecting command, for waiting requests and new ones.

    Args:
        queue: Directory of the request files.
        already_received: Numbers of requests received earlier; their files are removed first. Removal waits
            until now, so that a request lost on the way is still there.
        nonce: Random word to separate the command's own lines from the content of requests.
        streams: True to keep waiting for requests, False to end after the first batch.
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
    """A request as received from the target."""

    number: str
    line: bytes


class GarbledError(TerminalError):
    """The output does not have the collecting command's form."""


class CollectedRequests:
    """Splits the output of the collecting command into requests, without I/O.

    A script may write to the same stream, so the content is not trusted.

    Args:
        nonce: Word passed to the command.

    Attributes:
        ended: True once the command has reported the end.
    """

    def __init__(self, nonce: str) -> None:
        self.ended = False
        self._marker = f"\n{nonce} "
        self._number: str | None = None
        self._parts: list[str] = []
        self._size = 0
        self._rest = ""

    def feed(self, piece: str) -> Iterator[CollectedRequest]:
        """Receive the next output and yield the complete requests.

        Raises:
            GarbledError: The output has a wrong form, or a request is too long.
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
            # The number becomes a part of shell text.
            self._number = word if word.isascii() and word.isdigit() else None
            self._parts, self._size = [], 0
            text = behind
        else:
            at = max(0, len(text) - len(self._marker) + 1)
        self._append(text[:at])
        self._rest = text[at:]

    def _append(self, text: str) -> None:
        """Add text to the current request. Text between two requests is dropped."""
        if self._number is None:
            return
        self._parts.append(text)
        self._size += len(text)
        if self._size > MAX_COLLECTED:
            raise GarbledError


class FileQueueTransport:
    """Receives requests from scripts in any environment.

    A script renames its request into place as `req_000001` and waits for `res_000001`. One command waits in the target
    and sends each request as it arrives; on a stream made of short commands, each command sends one batch and ends. A
    few threads dispatch each request at most once. While all of them are busy, further requests stay in the target,
    which is the back-pressure.
    """

    def __init__(
        self, dispatcher: Dispatcher, env: BaseEnvironment, queue: str, *, streams: bool | None = None
    ) -> None:
        """Create a transport on a directory of the target.

        Args:
            dispatcher: Answers the requests.
            env: Environment of the script.
            queue: The queue's directory in the target, readable for the script's user alone; the creator removes the
                directory. A pipe `wake` inside wakes the collector; without a pipe the collector polls every 0.05 s.
            streams: True if a command's output arrives as it is printed, at no cost; then one command stays to collect.
                False if each command ends after a batch. None asks the environment.
        """
        self._dispatcher = dispatcher
        self._env = env
        self._queue = queue
        self._streams = streams
        self._write_lock = threading.Lock()
        self._scope = CancelScope()
        self._closing = threading.Event()
        self._collector: threading.Thread | None = None
        self._threads = CallThreads()
        self.failure: Exception | None = None
        """Error that ended the collecting, unless `close` did."""

    def start(self) -> None:
        """Start collecting. The queue may still be in the making."""
        self._collector = threading.Thread(target=self._collect_in_thread, name="hermes-file-queue-poll", daemon=True)
        self._collector.start()

    def close(self) -> None:
        """Stop collecting and end all threads, as `UnixSocketTransport.close` does."""
        if self._closing.is_set():
            return
        self._closing.set()
        self._threads.close()
        if self._collector is not None:
            self._stop_collector(self._collector)
        self._threads.join(CLOSE_GRACE_SECONDS)

    def _stop_collector(self, collector: threading.Thread) -> None:
        if collector.is_alive():
            # Opened for reading too, because opening a pipe only for writing waits for a reader, which may be gone.
            # Without a pipe, the queue may be in removal.
            wake = "if [ -p wake ]; then echo stop 1<>wake; else sleep 0.1; [ -e stop ]; fi"
            with contextlib.suppress(TerminalError):
                stopped = self._env.internal.execute(f"cd {shlex.quote(self._queue)} && : >stop && {wake}", timeout=5)
                if stopped.ok:
                    collector.join(CLOSE_GRACE_SECONDS)
        # Ends the command if the queue itself is gone; no command may start in the scope from here on.
        self._scope.cancel()
        collector.join(CLOSE_GRACE_SECONDS)

    def _collect_in_thread(self) -> None:
        try:
            with self._scope.active():
                self._collect_until_closed()
        except Exception as error:
            if not self._closing.is_set():
                self.failure = error
                _log.warning("tool calls are no longer collected: %s", type(error).__name__)

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
        """Run one collecting command and dispatch the requests as they arrive. Return their numbers, or None if there
        were none.

        Args:
            already_received: Numbers from the command before.
        """
        streams = self._env.capabilities.duplex if self._streams is None else self._streams
        nonce = secrets.token_hex(16)
        collected = CollectedRequests(nonce)
        received: list[str] = []

        def receive(piece: str) -> None:
            for number, line in collected.feed(piece):
                received.append(number)
                # A known number means only that the file could not be removed.
                if number not in already_received:
                    self._threads.put(len(line), partial(self._answer, number, line))

        command = collecting_command(self._queue, already_received, nonce, streams)
        with contextlib.suppress(GarbledError):
            self._env.internal.execute(command, timeout=math.inf, on_output=receive)
        return received if received or collected.ended else None

    def _answer(self, number: str, line: bytes) -> None:
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
        # A script that waits at its own pipe is woken and renames the answer itself, which costs no process.
        wake_script = f": <>claim_{number}"
        placing = f"if [ -p claim_{number} ]; then {wake_script}; else exec mv -f {file}.tmp {file}; fi"
        if len(answer) > ECHO_BYTES:
            self._env.write_bytes(f"{self._queue}/{file}.tmp", answer)
        elif answer:
            # The script decodes base64: a program for that would double the time of a call.
            placing = f"echo {base64.b64encode(answer).decode()} >{file}.tmp && {placing}"
        else:
            placing = f"rm -f {file}.tmp && : >{file}"
        # Answers written one after another need one shell. After a longer wait, a second shell writes in parallel.
        is_locked = self._write_lock.acquire(timeout=WRITE_LOCK_SECONDS)
        try:
            written = self._env.internal.execute(f"cd {shlex.quote(self._queue)} && {placing}", timeout=60)
        finally:
            if is_locked:
                self._write_lock.release()
        if not written.ok:
            raise TerminalError(f"exit code {written.exit_code}")
