"""What a script prints, and what its start and its keeper say to us between that."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable
from functools import cached_property

from code_execution.result import with_truncation_notice
from code_execution.settings import CodeExecutionSettings
from environments.errors import TerminalError
from environments.loop import Pieces
from environments.model_view import ModelView
from environments.output import BoundedCapture, Channel, Fed, LiveText, TextCallback

SCRIPT, STUB = "script.py", "hermes_tools.py"
_LONGEST = 4096
"""Bytes that one message may have."""
_MARK = b"\x1e"


class Messages:
    """Takes messages out of a script's standard error: byte 30, a word, a space, the message, and a line end.

    | message       | says                                                                                          |
    |---------------|-----------------------------------------------------------------------------------------------|
    | `3`, `-`      | the shell has chosen the third candidate for the Python; it has found none                     |
    | `failed WHY`  | the script could not be staged                                                                |
    | `another HEX` | the boot program was compiled for another Python, HEX is this one's; nothing was done          |
    | `+HEX`        | the Python has begun, and HEX is the magic number of its code; what follows is the script's    |
    | `r 7 20 1`    | 20 bytes follow, a part of a request of connection 7, the last one                            |
    | `e 0 none`    | the script has ended with exit code 0, and none, some or an unknown number of processes are left |
    | `z`           | the script's directory was removed                                                            |

    The last three come from its keeper and begin with another word, the secret, which the script never has.
    """

    def __init__(self) -> None:
        self.word, self.secret = secrets.token_hex(8), secrets.token_hex(16)
        self.has_keeper = False
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
        self._marker = _MARK + self.word.encode() + b" "
        self._is_over = False
        self._held = b""

    def saying(self, what: str) -> str:
        """Return shell text that says something."""
        return f"printf '\\036{self.word} %s\\n' {what} >&2"

    def feed(self, data: bytes, final: bool = False) -> bytes:
        """Take what comes, and return what is not for us.

        Args:
            data: The next bytes.
            final: Whether nothing more comes, so that nothing is held back.
        """
        if self._is_over:
            return data
        data, self._held = self._held + data, b""
        passed = b""
        while not self._is_over and (found := data.find(self._marker)) >= 0:
            begin, end = found + len(self._marker), data.find(b"\n", found)
            behind = self._take(data[begin:end], data, end + 1) if end >= 0 else None
            if behind is None:
                break
            passed, data = passed + data[:found], data[behind:]
        if final or self._is_over:
            return passed + data
        keep = found if found >= 0 else self._message_start(data)
        self._held = data[keep:]
        return passed + data[:keep]

    def _message_start(self, data: bytes) -> int:
        """Return where the end of data may begin a message; its length if it does not."""
        start = data.rfind(_MARK, max(0, len(data) - len(self._marker) + 1))
        return start if start >= 0 and self._marker.startswith(data[start:]) else len(data)

    def _take(self, said: bytes, data: bytes, behind: int) -> int | None:
        """Take one message, and return where the next bytes begin; None if it has not wholly come."""
        kind, _, rest = said.partition(b" ")
        if self.begun:
            return self._take_from_keeper(kind, rest, data, behind)
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
            self._marker, self._is_over = _MARK + self.secret.encode() + b" ", not self.has_keeper
            self.on_begun()
        return behind

    def _take_from_keeper(self, kind: bytes, rest: bytes, data: bytes, behind: int) -> int | None:
        if kind == b"r":
            connection, size, is_last = map(int, rest.split())
            if size > _LONGEST:
                raise TerminalError("a message of the script's keeper is too long")
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


class ScriptOutput:
    """Takes a script's output, and what comes with it. It is used on the loop thread.

    Args:
        settings: How much is kept.
        view: What the output is to look like to a model.
        pieces: Takes standard output on to a callback; None where there is none.
    """

    separate = True

    def __init__(self, settings: CodeExecutionSettings, view: ModelView, pieces: Pieces | None) -> None:
        self._limits = {Channel.STDOUT: settings.max_stdout_bytes, Channel.STDERR: settings.max_stderr_bytes}
        self._captures = {channel: BoundedCapture(limit) for channel, limit in self._limits.items()}
        self._view, self._pieces = view, pieces
        self._paths: dict[Channel, ShortPaths] = {}
        self._process: Fed | None = None
        self.on_attach: Callable[[Fed], object] = lambda _: None
        self.messages = Messages()

    def attach(self, process: Fed) -> None:
        """Note whose output it is, see `LoopSink`."""
        self._process = process
        self.on_attach(process)

    def shorten_paths(self, directory: str) -> None:
        """Show the paths of the script and its stub without their directory: those in tracebacks, and all on stderr."""
        self._paths = {channel: ShortPaths(directory, in_tracebacks=channel is Channel.STDOUT) for channel in Channel}

    def add(self, channel: Channel, data: bytes) -> None:
        """Take the next bytes of one channel."""
        self._take(channel, data)

    def _take(self, channel: Channel, data: bytes, final: bool = False) -> None:
        if channel is Channel.STDERR:
            data = self.messages.feed(data, final)
        if paths := self._paths.get(channel):
            data = paths.feed(data, final)
        if not data:
            return
        self._captures[channel].add(data)
        if channel is Channel.STDOUT and self._pieces is not None and self._process:
            self._pieces.offer(channel, data, self._process)

    def finish(self) -> None:
        """Take what was held back as something longer may have begun with it. Nothing more comes."""
        for channel in Channel:
            self._take(channel, b"", final=True)

    def stdout(self) -> str:
        """Return what was kept of standard output."""
        return self._text(Channel.STDOUT)

    def stderr(self) -> str:
        """Return what was kept of standard error."""
        return self._text(Channel.STDERR)

    def _text(self, channel: Channel) -> str:
        captured = self._view.captured(self._captures[channel].text())
        return with_truncation_notice(captured, self._limits[channel])


class Shown:
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


class ShortPaths:
    """Shortens the paths of the script and its stub in an output that comes in pieces.

    Args:
        directory: The directory.
        in_tracebacks: Whether they are shortened only as tracebacks name them, `File "PATH"`.
    """

    def __init__(self, directory: str, *, in_tracebacks: bool) -> None:
        before = b'File "' if in_tracebacks else b""
        behind = b'"' if in_tracebacks else b""
        self._place = directory.encode() + b"/"
        self._long = [before + self._place + name.encode() + behind for name in (SCRIPT, STUB)]
        self._held = b""

    @cached_property
    def _pattern(self) -> re.Pattern[bytes]:
        """Made only for an output that names the directory: it takes as long as half of all that we do for a script."""
        return re.compile(b"|".join(map(re.escape, self._long)))

    def feed(self, data: bytes, final: bool = False) -> bytes:
        """Take the next bytes and return what can be shown.

        Args:
            data: The bytes.
            final: Whether nothing more comes, so that nothing is held back.
        """
        data = self._held + data
        if self._place in data:
            data, rest = self._shortened(data)
        else:
            data, rest = b"", data
        keep = len(rest) if final else self._beginning(rest)
        self._held = rest[keep:]
        return data + rest[:keep]

    def _shortened(self, data: bytes) -> tuple[bytes, bytes]:
        """Return what comes up to the last path, with all of them shortened, and what comes behind it."""
        parts, position = [], 0
        for found in self._pattern.finditer(data):
            parts += [data[position : found.start()], found[0].replace(self._place, b"")]
            position = found.end()
        return b"".join(parts), data[position:]

    def _beginning(self, data: bytes) -> int:
        """Return where the end of `data` may begin one of the paths; its length if it does not."""
        longest = max(map(len, self._long))
        start = max(0, len(data) - longest + 1)
        first = self._long[0][:1]
        while (start := data.find(first, start)) >= 0:
            if any(path.startswith(data[start:]) for path in self._long):
                return start
            start += 1
        return len(data)
