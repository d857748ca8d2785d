"""Reading a file whole, to change it here: a regular one, and one that is not too large."""

from __future__ import annotations

import time

from environments.base import BaseEnvironment
from environments.errors import TerminalError
from environments.output import Channel
from environments.process import Process
from hermes_tools.files.sizes import MAX_BYTES
from hermes_tools.files.target_paths import missing_file_error, shell_word
from hermes_tools.files.write_guard import REFUSED, WriteGuard
from hermes_tools.interruption import raise_if_interrupted

_FILE = b"file"
_LOOK_UP_SECONDS = 0.05
_LONGEST_REASON = 1000


class UnreadableFileError(Exception):
    """A file cannot be read, or is not to be changed. The message names it."""


class _Collected:
    """Takes what the target sends, and no more than was asked for."""

    separate = False

    def __init__(self, most: int) -> None:
        self.data = bytearray()
        self._most = most

    def add(self, channel: Channel, data: bytes) -> None:
        """Take the next bytes."""
        self.data += data[: max(0, self._most - len(self.data))]


def read_whole(env: BaseEnvironment, where: str, shown: str, guard: WriteGuard) -> bytes:
    """Return a file of at most 10 MB that the tools may change.

    The target looks at what it is before it is read, and sends no more than that, also when it grows meanwhile.

    Args:
        env: Where the file is.
        where: Its path as the target sees it, absolute or with `~`.
        shown: Its path as the caller gave it.
        guard: Says which files may be changed.

    Raises:
        UnreadableFileError: There is none, it is not a regular file, too large, not to be changed, or out of reach.
        ToolInterruptedError: The script that called the tool has ended.
        TerminalError: The target could not be asked.
    """
    raise_if_interrupted()
    sink = _Collected(MAX_BYTES + _LONGEST_REASON)
    process = env.internal.start(_command(where, guard), cwd="/", stdin="none", sink=sink)
    try:
        code = _waited_for(process, env.settings.timeout, shown)
    finally:
        if process.running:
            process.kill()
    header, _, data = bytes(sink.data).partition(b"\n")
    kind = header.decode("utf-8", "replace")
    if code:
        raise UnreadableFileError(f"{shown} cannot be read: {_end(sink.data) or f'exit code {code}'}")
    if header == _FILE and len(data) <= MAX_BYTES:
        return data
    if kind == "missing":
        raise UnreadableFileError(missing_file_error(env, where))
    if kind.startswith(REFUSED):
        raise UnreadableFileError(guard.refusal(shown, kind))
    if header == _FILE:
        kind = f"larger than {MAX_BYTES:,} bytes"
    raise UnreadableFileError(f"{shown} cannot be read: it is {kind}")


def _waited_for(process: Process, timeout: float, shown: str) -> int:
    deadline = time.monotonic() + timeout
    while (code := process.wait(_LOOK_UP_SECONDS)) is None:
        raise_if_interrupted()
        if time.monotonic() > deadline:
            raise TerminalError(f"reading {shown} timed out after {timeout:.0f} s")
    return code


def _command(where: str, guard: WriteGuard) -> str:
    """Print a line on what stands there, and the file below it if it may be changed."""
    return f"""
{guard.shell_text()}
f={shell_word(where)}
if [ -d "$f" ]; then echo a directory
elif [ ! -e "$f" ]; then echo missing
elif [ ! -f "$f" ]; then echo 'not a regular file (a device, pipe or socket)'
elif [ ! -r "$f" ]; then echo 'out of reach: permission denied'
elif refused "$f"; then :
elif [ "$(wc -c <"$f")" -gt {MAX_BYTES} ]; then echo 'larger than {MAX_BYTES:,} bytes, the most that patch changes'
else echo {_FILE.decode()}; head -c {MAX_BYTES + 1} "$f"
fi"""


def _end(data: bytearray) -> str:
    return data[-_LONGEST_REASON:].decode("utf-8", "replace").strip().rpartition("\n")[2]
