"""A script's output, and the messages of the boot program, supervisor and session in between."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

from code_execution.result import with_truncation_notice
from code_execution.session_program import LARGEST_FIGURE, MOST_FIGURES
from code_execution.settings import CodeExecutionSettings
from environments.errors import TerminalError
from environments.loop import OutputQueue
from environments.model_view import ModelView
from environments.output import AttachedProcess, BoundedCapture, Channel, LiveText, LoopSink, TextCallback

STUB = "hermes_tools.py"
LONGEST = 4096
"""Limit in bytes for a message."""
_MARK = b"\x1e"
_LONGEST_NAME = len("script-123456789.py")
_TAMPERED = "the messages about the script's end were tampered with"


def marker_of(word: str) -> bytes:
    """Return the first bytes of a message with a marker word."""
    return _MARK + word.encode() + b" "


class MessageDecoder:
    """Separates messages from a stream: byte 30, a marker word, a space, the message, and a newline.

    Subclasses define the marker words and the meaning of messages.
    """

    def __init__(self) -> None:
        self._markers: tuple[bytes, ...] = ()
        self._pending = b""
        self.passes_output = True
        """True to pass on bytes outside of messages."""

    def feed(self, data: bytes, final: bool = False) -> bytes:
        """Receive bytes, and return those outside of messages.

        Args:
            data: The next bytes.
            final: True at the end of the stream, to hold no bytes back.

        Raises:
            TerminalError: A message with a secret marker word is malformed.
        """
        if not self._markers:
            return data if self.passes_output else b""
        data, self._pending = self._pending + data, b""
        passed: list[bytes] = []
        at = 0
        while place := self._next(data, at):
            found, marker = place
            self._pass_on(data[at:found], passed)
            at, end = found, data.find(b"\n", found, found + LONGEST)
            if end < 0 and len(data) - found >= LONGEST:
                raise TerminalError(_TAMPERED)
            try:
                message = data[found + len(marker) : end]
                end_at = self._handle_message(marker, message, data, end + 1) if end >= 0 else None
            except ValueError:
                raise TerminalError(_TAMPERED) from None
            if end_at is None:
                break
            at = end_at
        else:
            found = self._message_start(data) if self._markers else len(data)
            self._pass_on(data[at : max(at, found)], passed)
            at = max(at, found)
        if final:
            self._pass_on(data[at:], passed)
        else:
            self._pending = data[at:]
        return b"".join(passed)

    def _pass_on(self, data: bytes, passed: list[bytes]) -> None:
        if self.passes_output and data:
            passed.append(data)

    def _next(self, data: bytes, at: int) -> tuple[int, bytes] | None:
        """Return the position and the marker of the next message."""
        found = [(place, marker) for marker in self._markers if (place := data.find(marker, at)) >= 0]
        return min(found) if found else None

    def _message_start(self, data: bytes) -> int:
        """Return the position of an incomplete marker at the end of data; the length if there is none."""
        longest = max(map(len, self._markers))
        start = data.rfind(_MARK, max(0, len(data) - longest + 1))
        may_begin = start >= 0 and any(marker.startswith(data[start:]) for marker in self._markers)
        return start if may_begin else len(data)

    def _handle_message(self, marker: bytes, message: bytes, data: bytes, end_at: int) -> int | None:
        """Handle a message, and return the position after the message; None if incomplete.

        Raises:
            ValueError: The message is malformed.
        """
        raise NotImplementedError


class BootMessages(MessageDecoder):
    """Separates messages from a script's standard error.

    | message       | meaning                                                                                       |
    |---------------|-----------------------------------------------------------------------------------------------|
    | `3`, `-`      | the shell has chosen the third candidate for the Python; no candidate was found               |
    | `failed WHY`  | the script could not be staged                                                                |
    | `another HEX` | the boot program was compiled for another Python, HEX is this one's; nothing ran              |
    | `+HEX`        | the Python works; HEX is the magic number of its code; the script's output follows            |
    | `r 7 20 1`    | 20 bytes follow, a part of a request of connection 7, the last part                           |
    | `e 0 none`    | the script has ended with exit code 0; none, some or an unknown number of processes are left  |
    | `z`           | the script's directory was removed                                                            |
    | `f 3`         | the third script of a session has no more output on standard error                            |

    Messages `r`, `e` and `z` come from the supervisor and have the secret as marker word, unknown to the script.
    Message `f` comes from the session program, with a marker word of its own.
    """

    def __init__(self) -> None:
        super().__init__()
        self.word, self.secret = secrets.token_hex(8), secrets.token_hex(16)
        self.has_supervisor = False
        """True if a supervisor sends messages after the script's start."""
        self.chosen: int | None = None
        self.none_found = self.begun = self.removed = False
        self.failed: str | None = None
        """Reason of a failed staging."""
        self.magic = ""
        """Magic number of the Python's code, in hexadecimal digits."""
        self.is_for_another = False
        """True if the boot program was compiled for another Python, so that nothing ran."""
        self.exit_code: int | None = None
        self.left: str | None = None
        """Remaining processes: `none`, `some` or `unknown`."""
        self.on_begun: Callable[[], object] = lambda: None
        self.on_request: Callable[[int, bytes, bool], object] = lambda *_: None
        self.on_end: Callable[[], object] = lambda: None
        self.session = ""
        """Marker word of the session program; empty for a single script."""
        self.on_output_end: Callable[[int], object] = lambda _: None
        self._markers = (marker_of(self.word),)

    def report_command(self, what: str) -> str:
        """Return shell text that sends a message."""
        return f"printf '\\036{self.word} %s\\n' {what} >&2"

    def _handle_message(self, marker: bytes, message: bytes, data: bytes, end_at: int) -> int | None:
        kind, _, rest = message.partition(b" ")
        if self.session and marker == marker_of(self.session):
            self.on_output_end(int(rest))
            return end_at
        if self.begun:
            return self._handle_supervisor_message(kind, rest, data, end_at)
        if message.isdigit() and len(message) < 6:
            self.chosen = int(message)
        elif message == b"-":
            self.none_found = True
        elif kind == b"failed":
            self.failed = rest.decode("utf-8", "replace")
        elif kind == b"another":
            self.magic, self.left = rest.decode("ascii", "replace"), "none"
            self.is_for_another = self.removed = True
        elif message.startswith(b"+"):
            self.magic, self.begun = message[1:].decode("ascii", "replace"), True
            words = [self.secret, *filter(None, [self.session])] if self.has_supervisor else []
            self._markers = tuple(map(marker_of, words))
            self.on_begun()
        return end_at

    def _handle_supervisor_message(self, kind: bytes, rest: bytes, data: bytes, end_at: int) -> int | None:
        """Handle a message of the supervisor. A script may have read the secret from the supervisor's memory."""
        if kind == b"r":
            connection, size, is_last = map(int, rest.split())
            if not 0 < size <= LONGEST:
                raise ValueError
            if len(data) - end_at < size:
                return None
            self.on_request(connection, data[end_at : end_at + size], bool(is_last))
            return end_at + size
        if kind == b"e":
            code, _, left = rest.partition(b" ")
            self.exit_code, self.left = int(code), left.decode()
            self.on_end()
        elif kind == b"z":
            self.removed = True
        return end_at


class SessionResult(NamedTuple):
    """The result of a script in a session."""

    code: int
    value: bytes | None
    """The `repr` of the last expression's value, cut at a limit."""
    value_bytes: int
    """Size of the uncut `repr`."""
    figures: tuple[bytes, ...]
    left_out: int
    """Number of figures left out."""


class SessionMessages(MessageDecoder):
    """Separates a session's messages from standard output.

    | message     | meaning                                                                                       |
    |-------------|-----------------------------------------------------------------------------------------------|
    | `v 7 1`     | 7 bytes follow, a part of the `repr` of the last expression's value, the last part            |
    | `i 4000 0`  | 4,000 bytes follow, a part of a figure, not the last part                                     |
    | `d 3 0 7 1` | the third script has ended with exit code 0; the value has 7 bytes, one figure is left out    |

    A script may reach the sender, and so may forge a result of its own, and no more.

    Args:
        word: Marker word of the messages.
        limit: Limit in bytes for a value.
    """

    def __init__(self, word: str, limit: int) -> None:
        super().__init__()
        self._markers = (marker_of(word),)
        self._limits = {b"v": (1, limit), b"i": (MOST_FIGURES, LARGEST_FIGURE)}
        self.on_done: Callable[[int], object] = lambda _: None
        self.clear()

    def clear(self) -> None:
        """Reset for the next script."""
        self._parts: dict[bytes, list[bytearray]] = {b"v": [], b"i": []}
        self._whole = {b"v": True, b"i": True}
        self._ended = (0, 0, 0)

    def result(self) -> SessionResult:
        """Return the result of the last script."""
        code, size, left_out = self._ended
        value = bytes(self._parts[b"v"][0]) if self._parts[b"v"] else None
        return SessionResult(code, value, size, tuple(map(bytes, self._parts[b"i"])), left_out)

    def _handle_message(self, marker: bytes, message: bytes, data: bytes, end_at: int) -> int | None:
        kind, _, rest = message.partition(b" ")
        if kind == b"d":
            number, code, size, left_out = map(int, rest.split())
            self._ended = code, size, left_out
            self.on_done(number)
        elif kind in self._parts:
            size, is_last = map(int, rest.split())
            if not 0 <= size <= LONGEST:
                raise ValueError
            if len(data) - end_at < size:
                return None
            self._add(kind, data[end_at : end_at + size], bool(is_last))
            return end_at + size
        return end_at

    def _add(self, kind: bytes, part: bytes, is_last: bool) -> None:
        parts, (limit, longest) = self._parts[kind], self._limits[kind]
        if self._whole[kind]:
            if len(parts) == limit:
                return
            parts.append(bytearray())
        if len(parts[-1]) + len(part) <= longest:
            parts[-1] += part
        self._whole[kind] = is_last


class ScriptCapture:
    """Captured output of a script, up to the limits. Used on the loop thread.

    Args:
        settings: Limits of the capture.
        view: Returns the view that a model gets of the text.
        pieces: Queue to the output callback; None without a callback.
    """

    def __init__(
        self, settings: CodeExecutionSettings, view: Callable[[], ModelView], pieces: OutputQueue | None
    ) -> None:
        self._limits = {Channel.STDOUT: settings.max_stdout_bytes, Channel.STDERR: settings.max_stderr_bytes}
        self._captures = {channel: BoundedCapture(limit) for channel, limit in self._limits.items()}
        self._view, self._pieces = view, pieces
        self._paths: dict[Channel, PathShortener] = {}

    def shorten_paths(self, directory: str) -> None:
        """Shorten paths of the script and stub: in tracebacks on stdout, and everywhere on stderr."""
        self._paths = {
            channel: PathShortener(directory, in_tracebacks=channel is Channel.STDOUT) for channel in Channel
        }

    def add(self, channel: Channel, data: bytes, process: AttachedProcess | None, final: bool = False) -> None:
        """Capture bytes of a channel. The process is paused if the callback is slow: back-pressure."""
        if paths := self._paths.get(channel):
            data = paths.feed(data, final)
        if not data:
            return
        self._captures[channel].add(data)
        if channel is Channel.STDOUT and self._pieces is not None and process:
            self._pieces.offer(channel, data, process)

    def finish(self, process: AttachedProcess | None) -> None:
        """Capture bytes held back as a possible path. Call at the end of the output."""
        for channel in Channel:
            self.add(channel, b"", process, final=True)

    def stdout(self) -> str:
        """Return the captured standard output."""
        return self._text(Channel.STDOUT)

    def stderr(self) -> str:
        """Return the captured standard error."""
        return self._text(Channel.STDERR)

    def _text(self, channel: Channel) -> str:
        captured = self._view().captured(self._captures[channel].text())
        return with_truncation_notice(captured, self._limits[channel])


class ScriptOutput(LoopSink):
    """Receives the output of a Python process, with its messages. Used on the loop thread.

    Args:
        printed: Capture of the current script; None between two scripts of a session.
        results: Separates a session's results.
    """

    separate = True

    def __init__(self, printed: ScriptCapture | None = None, results: SessionMessages | None = None) -> None:
        self.printed, self._results = printed, results
        self.process: AttachedProcess | None = None
        self.on_attach: Callable[[AttachedProcess], object] = lambda _: None
        self.messages = BootMessages()

    def attach(self, process: AttachedProcess) -> None:
        self.process = process
        self.on_attach(process)

    def add(self, channel: Channel, data: bytes) -> None:
        self._handle_message(channel, data)

    def _handle_message(self, channel: Channel, data: bytes, final: bool = False) -> None:
        if framed := self.messages if channel is Channel.STDERR else self._results:
            data = framed.feed(data, final)
        if self.printed:
            self.printed.add(channel, data, self.process, final)

    def finish(self) -> None:
        """Process bytes held back as a possible message. Call at the end of the output."""
        for channel in Channel:
            self._handle_message(channel, b"", final=True)


class LiveScriptOutput:
    """Passes standard output to a callback, as text for a model. Used on the callback's thread.

    Args:
        on_output: The callback.
        view: View that a model gets of the text.
    """

    def __init__(self, on_output: TextCallback, view: ModelView) -> None:
        self._on_output, self._live, self._view = on_output, LiveText(), view.pieces()

    def __call__(self, channel: Channel, data: bytes, final: bool = False) -> object:
        """Pass on the next bytes, and return the callback's result, which may be an awaitable."""
        text = self._view.feed(self._live.feed(data, final), final)
        return self._on_output(text) if text else None

    def finish(self) -> object:
        """Pass on bytes held back."""
        return self(Channel.STDOUT, b"", final=True)


class PathShortener:
    """Shortens paths of scripts and their stub in output that arrives in pieces.

    Args:
        directory: Directory of the scripts.
        in_tracebacks: True to shorten only paths in lines of tracebacks, `File "PATH"`.
    """

    def __init__(self, directory: str, *, in_tracebacks: bool) -> None:
        self._place = directory.encode() + b"/"
        self._budget, self._behind = (b'File "', b'"') if in_tracebacks else (b"", b"")
        self._head = self._budget + self._place
        self._pending = b""

    @cached_property
    def _pattern(self) -> re.Pattern[bytes]:
        """Compiled only for output that contains the directory: compiling takes half as long as the rest of a script's
        run."""
        return re.compile(re.escape(self._head) + rb"((?:script(?:-\d{1,9})?|hermes_tools)\.py)" + self._behind)

    def feed(self, data: bytes, final: bool = False) -> bytes:
        """Receive bytes and return those ready to show.

        Args:
            data: The bytes.
            final: True at the end of the output, to hold no bytes back.
        """
        data = self._pending + data
        if self._place in data:
            data = self._pattern.sub(self._budget + rb"\1" + self._behind, data)
        keep = len(data) if final else self._beginning(data)
        self._pending = data[keep:]
        return data[:keep]

    def _beginning(self, data: bytes) -> int:
        """Return the position of a possible path at the end of `data`; the length if there is none."""
        start = max(0, len(data) - len(self._head) - _LONGEST_NAME)
        while (start := data.find(self._head[:1], start)) >= 0:
            rest = data[start:]
            if self._head.startswith(rest) or (rest.startswith(self._head) and self._may_go_on(rest)):
                return start
            start += 1
        return len(data)

    def _may_go_on(self, path: bytes) -> bool:
        name = path[len(self._head) :]
        return re.fullmatch(rb"[a-z_]*(?:-\d{0,9})?(?:\.p?y?)?", name) is not None and len(name) <= _LONGEST_NAME
