"""What a script prints, and what its start and its keeper say to us between that."""

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
from environments.loop import Pieces
from environments.model_view import ModelView
from environments.output import AttachedProcess, BoundedCapture, Channel, LiveText, TextCallback

STUB = "hermes_tools.py"
LONGEST = 4096
"""Bytes that one message may have."""
_MARK = b"\x1e"
_LONGEST_NAME = len("script-123456789.py")
_TAMPERED = "what says how the script ends was tampered with"


def marker_of(word: str) -> bytes:
    """Return what a message begins with that carries a word."""
    return _MARK + word.encode() + b" "


class MessageDecoder:
    """Takes messages to us out of a stream: byte 30, a word, a space, the message, and a line end.

    Which words there are, and what the messages mean, is for subclasses.
    """

    def __init__(self) -> None:
        self._markers: tuple[bytes, ...] = ()
        self._held = b""
        self.passes_output = True
        """Whether what is no message is passed on."""

    def feed(self, data: bytes, final: bool = False) -> bytes:
        """Take what comes, and return what is not for us.

        Args:
            data: The next bytes.
            final: Whether nothing more comes, so that nothing is held back.

        Raises:
            TerminalError: Something that is no message of ours begins with a word that was ours alone.
        """
        if not self._markers:
            return data if self.passes_output else b""
        data, self._held = self._held + data, b""
        passed: list[bytes] = []
        at = 0
        while place := self._next(data, at):
            found, marker = place
            self._pass(data[at:found], passed)
            at, end = found, data.find(b"\n", found, found + LONGEST)
            if end < 0 and len(data) - found >= LONGEST:
                raise TerminalError(_TAMPERED)
            try:
                behind = self._take(marker, data[found + len(marker) : end], data, end + 1) if end >= 0 else None
            except ValueError:
                raise TerminalError(_TAMPERED) from None
            if behind is None:
                break
            at = behind
        else:
            found = self._message_start(data) if self._markers else len(data)
            self._pass(data[at : max(at, found)], passed)
            at = max(at, found)
        if final:
            self._pass(data[at:], passed)
        else:
            self._held = data[at:]
        return b"".join(passed)

    def _pass(self, data: bytes, passed: list[bytes]) -> None:
        if self.passes_output and data:
            passed.append(data)

    def _next(self, data: bytes, at: int) -> tuple[int, bytes] | None:
        """Return where the next message begins, and its marker."""
        found = [(place, marker) for marker in self._markers if (place := data.find(marker, at)) >= 0]
        return min(found) if found else None

    def _message_start(self, data: bytes) -> int:
        """Return where the end of data may begin a message; its length if it does not."""
        longest = max(map(len, self._markers))
        start = data.rfind(_MARK, max(0, len(data) - longest + 1))
        may_begin = start >= 0 and any(marker.startswith(data[start:]) for marker in self._markers)
        return start if may_begin else len(data)

    def _take(self, marker: bytes, said: bytes, data: bytes, behind: int) -> int | None:
        """Take one message, and return where the next bytes begin; None if it has not wholly come.

        Raises:
            ValueError: It is none.
        """
        raise NotImplementedError


class BootMessages(MessageDecoder):
    """Takes messages out of a script's standard error.

    | message       | says                                                                                          |
    |---------------|-----------------------------------------------------------------------------------------------|
    | `3`, `-`      | the shell has chosen the third candidate for the Python; it has found none                     |
    | `failed WHY`  | the script could not be staged                                                                |
    | `another HEX` | the boot program was compiled for another Python, HEX is this one's; nothing was done          |
    | `+HEX`        | the Python has begun, and HEX is the magic number of its code; what follows is the script's    |
    | `r 7 20 1`    | 20 bytes follow, a part of a request of connection 7, the last one                            |
    | `e 0 none`    | the script has ended with exit code 0, and none, some or an unknown number of processes are left |
    | `z`           | the script's directory was removed                                                            |
    | `f 3`         | nothing more of the third script of a session is on standard error                            |

    All but the last of `r` and those below it come from its keeper and begin with another word, the secret, which the
    script never has. The last comes from the session itself, with a word of its own.
    """

    def __init__(self) -> None:
        super().__init__()
        self.word, self.secret = secrets.token_hex(8), secrets.token_hex(16)
        self.has_supervisor = False
        """Whether a keeper goes on to speak when the script has begun."""
        self.chosen: int | None = None
        self.none_found = self.begun = self.removed = False
        self.failed: str | None = None
        """Why the script could not be staged."""
        self.magic = ""
        """The magic number of the Python's code, in hexadecimal digits."""
        self.is_for_another = False
        """Whether the boot program was compiled for another Python, so that nothing was done."""
        self.exit_code: int | None = None
        self.left: str | None = None
        """Whether processes are left: `none`, `some` or `unknown`."""
        self.on_begun: Callable[[], object] = lambda: None
        self.on_request: Callable[[int, bytes, bool], object] = lambda *_: None
        self.on_end: Callable[[], object] = lambda: None
        self.session = ""
        """The word of a session's own messages; empty for one script alone."""
        self.on_output_end: Callable[[int], object] = lambda _: None
        self._markers = (marker_of(self.word),)

    def report_command(self, what: str) -> str:
        """Return shell text that says something."""
        return f"printf '\\036{self.word} %s\\n' {what} >&2"

    def _take(self, marker: bytes, said: bytes, data: bytes, behind: int) -> int | None:
        kind, _, rest = said.partition(b" ")
        if self.session and marker == marker_of(self.session):
            self.on_output_end(int(rest))
            return behind
        if self.begun:
            return self._take_from_supervisor(kind, rest, data, behind)
        if said.isdigit() and len(said) < 6:
            self.chosen = int(said)
        elif said == b"-":
            self.none_found = True
        elif kind == b"failed":
            self.failed = rest.decode("utf-8", "replace")
        elif kind == b"another":
            self.magic, self.left = rest.decode("ascii", "replace"), "none"
            self.is_for_another = self.removed = True
        elif said.startswith(b"+"):
            self.magic, self.begun = said[1:].decode("ascii", "replace"), True
            words = [self.secret, *filter(None, [self.session])] if self.has_supervisor else []
            self._markers = tuple(map(marker_of, words))
            self.on_begun()
        return behind

    def _take_from_supervisor(self, kind: bytes, rest: bytes, data: bytes, behind: int) -> int | None:
        """Take a message of the keeper, whose word a script may have read from its memory."""
        if kind == b"r":
            connection, size, is_last = map(int, rest.split())
            if not 0 < size <= LONGEST:
                raise ValueError
            if len(data) - behind < size:
                return None
            self.on_request(connection, data[behind : behind + size], bool(is_last))
            return behind + size
        if kind == b"e":
            code, _, left = rest.partition(b" ")
            self.exit_code, self.left = int(code), left.decode()
            self.on_end()
        elif kind == b"z":
            self.removed = True
        return behind


class SessionResult(NamedTuple):
    """What a script of a session has come to."""

    code: int
    value: bytes | None
    """How the value of its last expression is written, cut at a limit."""
    value_bytes: int
    """How long that is uncut."""
    figures: tuple[bytes, ...]
    left_out: int
    """How many figures are left out."""


class SessionMessages(MessageDecoder):
    """Takes what a session says of its scripts out of standard output.

    | message     | says                                                                                          |
    |-------------|-----------------------------------------------------------------------------------------------|
    | `v 7 1`     | 7 bytes follow, a part of the value of the last expression as it is written, the last one      |
    | `i 4000 0`  | 4,000 bytes follow, a part of a figure, not the last one                                      |
    | `d 3 0 7 1` | the third script has ended with exit code 0; its value has 7 bytes, one figure is left out      |

    A script may reach what says so, so that it can lie about itself, and no more.

    Args:
        word: What the messages carry.
        most: Bytes of a value.
    """

    def __init__(self, word: str, most: int) -> None:
        super().__init__()
        self._markers = (marker_of(word),)
        self._most = {b"v": (1, most), b"i": (MOST_FIGURES, LARGEST_FIGURE)}
        self.on_done: Callable[[int], object] = lambda _: None
        self.clear()

    def clear(self) -> None:
        """Begin with the next script."""
        self._parts: dict[bytes, list[bytearray]] = {b"v": [], b"i": []}
        self._whole = {b"v": True, b"i": True}
        self._ended = (0, 0, 0)

    def result(self) -> SessionResult:
        """Return what the last script has come to."""
        code, size, left_out = self._ended
        value = bytes(self._parts[b"v"][0]) if self._parts[b"v"] else None
        return SessionResult(code, value, size, tuple(map(bytes, self._parts[b"i"])), left_out)

    def _take(self, marker: bytes, said: bytes, data: bytes, behind: int) -> int | None:
        kind, _, rest = said.partition(b" ")
        if kind == b"d":
            number, code, size, left_out = map(int, rest.split())
            self._ended = code, size, left_out
            self.on_done(number)
        elif kind in self._parts:
            size, is_last = map(int, rest.split())
            if not 0 <= size <= LONGEST:
                raise ValueError
            if len(data) - behind < size:
                return None
            self._add(kind, data[behind : behind + size], bool(is_last))
            return behind + size
        return behind

    def _add(self, kind: bytes, part: bytes, is_last: bool) -> None:
        parts, (most, longest) = self._parts[kind], self._most[kind]
        if self._whole[kind]:
            if len(parts) == most:
                return
            parts.append(bytearray())
        if len(parts[-1]) + len(part) <= longest:
            parts[-1] += part
        self._whole[kind] = is_last


class CapturedOutput:
    """What one script prints, as far as it is kept. It is used on the loop thread.

    Args:
        settings: How much is kept.
        view: Returns what it is to look like to a model.
        pieces: Takes standard output on to a callback; None where there is none.
    """

    def __init__(self, settings: CodeExecutionSettings, view: Callable[[], ModelView], pieces: Pieces | None) -> None:
        self._limits = {Channel.STDOUT: settings.max_stdout_bytes, Channel.STDERR: settings.max_stderr_bytes}
        self._captures = {channel: BoundedCapture(limit) for channel, limit in self._limits.items()}
        self._view, self._pieces = view, pieces
        self._paths: dict[Channel, PathShortener] = {}

    def shorten_paths(self, directory: str) -> None:
        """Show the paths of the script and its stub without their directory: those in tracebacks, and all on stderr."""
        self._paths = {
            channel: PathShortener(directory, in_tracebacks=channel is Channel.STDOUT) for channel in Channel
        }

    def add(self, channel: Channel, data: bytes, process: AttachedProcess | None, final: bool = False) -> None:
        """Take the next bytes of one channel, of a process that can be paused."""
        if paths := self._paths.get(channel):
            data = paths.feed(data, final)
        if not data:
            return
        self._captures[channel].add(data)
        if channel is Channel.STDOUT and self._pieces is not None and process:
            self._pieces.offer(channel, data, process)

    def finish(self, process: AttachedProcess | None) -> None:
        """Take what was held back as a path may have begun with it. Nothing more comes."""
        for channel in Channel:
            self.add(channel, b"", process, final=True)

    def stdout(self) -> str:
        """Return what was kept of standard output."""
        return self._text(Channel.STDOUT)

    def stderr(self) -> str:
        """Return what was kept of standard error."""
        return self._text(Channel.STDERR)

    def _text(self, channel: Channel) -> str:
        captured = self._view().captured(self._captures[channel].text())
        return with_truncation_notice(captured, self._limits[channel])


class ScriptOutput:
    """Takes the output of a process that runs scripts, and what comes with it. It is used on the loop thread.

    Args:
        printed: What is kept of it; None between two scripts.
        results: Takes the results of a session's scripts out of it.
    """

    separate = True

    def __init__(self, printed: CapturedOutput | None = None, results: SessionMessages | None = None) -> None:
        self.printed, self._results = printed, results
        self.process: AttachedProcess | None = None
        self.on_attach: Callable[[AttachedProcess], object] = lambda _: None
        self.messages = BootMessages()

    def attach(self, process: AttachedProcess) -> None:
        """Note whose output it is, see `LoopSink`."""
        self.process = process
        self.on_attach(process)

    def add(self, channel: Channel, data: bytes) -> None:
        """Take the next bytes of one channel."""
        self._take(channel, data)

    def _take(self, channel: Channel, data: bytes, final: bool = False) -> None:
        if framed := self.messages if channel is Channel.STDERR else self._results:
            data = framed.feed(data, final)
        if self.printed:
            self.printed.add(channel, data, self.process, final)

    def finish(self) -> None:
        """Take what was held back as something longer may have begun with it. Nothing more comes."""
        for channel in Channel:
            self._take(channel, b"", final=True)


class LiveOutput:
    """Hands pieces of standard output to a callback, as text that a model may see. Used where the callback is called.

    Args:
        on_output: The callback.
        view: What the text is to look like.
    """

    def __init__(self, on_output: TextCallback, view: ModelView) -> None:
        self._on_output, self._live, self._view = on_output, LiveText(), view.pieces()

    def __call__(self, channel: Channel, data: bytes, final: bool = False) -> object:
        """Show the next bytes, and return what the callback returns, which may have to be awaited."""
        text = self._view.feed(self._live.feed(data, final), final)
        return self._on_output(text) if text else None

    def finish(self) -> object:
        """Show what was held back."""
        return self(Channel.STDOUT, b"", final=True)


class PathShortener:
    """Shortens the paths of scripts and their stub in an output that comes in pieces.

    Args:
        directory: Their directory.
        in_tracebacks: Whether they are shortened only as tracebacks name them, `File "PATH"`.
    """

    def __init__(self, directory: str, *, in_tracebacks: bool) -> None:
        self._place = directory.encode() + b"/"
        self._budget, self._behind = (b'File "', b'"') if in_tracebacks else (b"", b"")
        self._head = self._budget + self._place
        self._held = b""

    @cached_property
    def _pattern(self) -> re.Pattern[bytes]:
        """Made only for an output that names the directory: it takes as long as half of all that we do for a script."""
        return re.compile(re.escape(self._head) + rb"((?:script(?:-\d{1,9})?|hermes_tools)\.py)" + self._behind)

    def feed(self, data: bytes, final: bool = False) -> bytes:
        """Take the next bytes and return what can be shown.

        Args:
            data: The bytes.
            final: Whether nothing more comes, so that nothing is held back.
        """
        data = self._held + data
        if self._place in data:
            data = self._pattern.sub(self._budget + rb"\1" + self._behind, data)
        keep = len(data) if final else self._beginning(data)
        self._held = data[keep:]
        return data[:keep]

    def _beginning(self, data: bytes) -> int:
        """Return where the end of `data` may begin one of the paths; its length if it does not."""
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
