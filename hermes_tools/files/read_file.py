"""The tool `read_file`: lines of a text file, numbered or as plain text."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from environments.base import BaseEnvironment
from environments.errors import (
    CallCancelledError,
    EnvironmentLostError,
    EnvironmentStartError,
    TargetFileNotFoundError,
    TargetIsADirectoryError,
    TargetNotADirectoryError,
    TargetPermissionError,
    TerminalError,
)
from environments.files import run_on_files
from hermes_tools.files.lines import MAX_DIGITS, MAX_LINE_BYTES, cut_line, number, quoted
from hermes_tools.files.target_paths import failed_command_error, missing_file_error, shell_word, target_path
from hermes_tools.interruption import ToolInterruptedError

MAX_WHOLE_BYTES = 256 * 1024
"""Limit in bytes for reading a whole file at once; its lines are then selected here."""
_MAX_BYTES = 4_000_000
"""Limit in bytes for a call on a longer file; below the default output cap of an environment."""
_MAX_LINES = 100_000
_LARGEST_NUMBER = 10**MAX_DIGITS - 1


class ReadResult(TypedDict):
    """The result of `read_file`. After a failure only `path` and `error` are set."""

    path: str
    content: NotRequired[str]
    total_lines: NotRequired[int]
    file_size: NotRequired[int]
    truncated: NotRequired[bool]
    hint: NotRequired[str]
    error: NotRequired[str]


def read_file(env: BaseEnvironment, path: str, offset: int = 1, limit: int = 500, numbered: bool = True) -> ReadResult:
    """Read lines of a text file.

    Args:
        path: The file: absolute, relative to the session's working directory, or below `~`, the home directory.
        offset: First line, counted from 1.
        limit: Lines to return at most, and never more than 100,000 or 4 MB.
        numbered: Begin each line with its number, and cut long lines; False returns the text as it is in the file.

    Returns:
        A dict with path, content (each line as a six-wide number, `|` and the text; lines over 2000 characters
        are cut with a note; or the plain text), total_lines, file_size in bytes, truncated (whether lines follow the
        last one returned), and hint (how to go on) when truncated. A missing or binary file gives path and error
        instead.

    Raises:
        ValueError: The path is empty, or offset or limit is below 1.
    """
    if offset < 1 or limit < 1:
        raise ValueError(f"offset and limit count from 1, not {offset} and {limit}")
    where = target_path(env, path)
    limit = min(limit, _MAX_LINES)
    try:
        data = read_bytes(env, where, MAX_WHOLE_BYTES + 1)
        if len(data) <= MAX_WHOLE_BYTES:
            return _of_whole(path, data, offset, limit, numbered)
    except ToolInterruptedError:
        return {"path": path, "error": f"reading {path} was interrupted"}
    except (EnvironmentLostError, EnvironmentStartError):
        raise
    except TerminalError as error:
        return {"path": path, "error": unreadable(env, path, where, error)}
    return _of_part(env, path, where, offset, limit, numbered)


def read_bytes(env: BaseEnvironment, where: str, limit: int) -> bytes:
    """Return the first bytes of a regular file of the target.

    Args:
        env: The environment.
        where: Path of the file, from `target_path`.
        limit: Largest number of bytes to return.

    Raises:
        ToolInterruptedError: The script that called the tool has ended.
        TerminalError: The file could not be read; see `unreadable`.
    """
    try:
        return run_on_files(env, lambda files: files.read(where, limit))
    except CallCancelledError as error:
        raise ToolInterruptedError("the call was interrupted") from error


def unreadable(env: BaseEnvironment, path: str, where: str, error: TerminalError) -> str:
    """Return a tool's error text for an unreadable file.

    Args:
        env: The environment.
        path: Path as given by the caller.
        where: Path from `target_path`.
        error: Error of `read_bytes`.
    """
    if isinstance(error, TargetFileNotFoundError | TargetNotADirectoryError):
        return missing_file_error(env, where)
    if isinstance(error, TargetIsADirectoryError):
        return f"{path} is a directory: list it with search_files('*', target='files', path=...)"
    if isinstance(error, TargetPermissionError):
        return f"{path} cannot be read: permission denied"
    return str(error)


def _of_whole(path: str, data: bytes, offset: int, limit: int, numbered: bool) -> ReadResult:
    if b"\0" in data:
        return _binary(path, len(data))
    lines = data.split(b"\n")
    last_is_whole = not lines[-1]
    if last_is_whole:
        lines.pop()
    chosen = [line.decode("utf-8", "replace") for line in lines[offset - 1 : offset - 1 + limit]]
    ends_file = offset - 1 + len(chosen) == len(lines)
    return _shown(path, chosen, offset, len(lines), len(data), numbered, ends_file and not last_is_whole)


def _of_part(env: BaseEnvironment, path: str, where: str, offset: int, limit: int, numbered: bool) -> ReadResult:
    """Read a long file: the target counts and selects the lines."""
    result = env.internal.execute(_command(where, min(offset, _LARGEST_NUMBER), limit, numbered))
    if error := failed_command_error(result, f"reading {path}"):
        return {"path": path, "error": error}
    header, _, body = result.output.partition("\n")
    numbers = [value for word in header.split()[:5] if (value := number(word)) is not None]
    if len(numbers) != 4:
        return {"path": path, "error": f"reading {path} printed unexpected output: {quoted(header)}"}
    newlines, size, last_is_newline, nuls = numbers
    if result.omitted_bytes:
        body = body[: max(0, result.omitted_at - len(header) - 1)]
    if nuls:
        return _binary(path, size)
    total = newlines + (1 if size and not last_is_newline else 0)
    wanted = min(limit, max(0, total - offset + 1))
    lines = body.split("\n")
    # Text after the last newline is an incomplete line, unless the file ends without a newline.
    unended = not numbered and not last_is_newline and len(lines) == wanted and offset - 1 + wanted == total
    if not (unended and not result.omitted_bytes and len(body.encode()) < _MAX_BYTES):
        lines.pop()
        unended = False
    if wanted and not lines:
        return {"path": path, "error": f"line {offset} of {path} is longer than one answer: read it with numbered=True"}
    return _shown(path, lines[:wanted], offset, total, size, numbered, unended)


def _command(where: str, offset: int, limit: int, numbered: bool) -> str:
    """Return a command that prints a line of facts (newlines, bytes, ends in a newline, has a NUL byte), then the
    wanted lines.

    A growing file is read up to the size at the start, because the file may grow faster than the read.
    """
    cut = f"cut -b 1-{MAX_LINE_BYTES} | " if numbered else ""
    return f"""
f={shell_word(where)}
LC_ALL=C; export LC_ALL
size=$(wc -c <"$f") || exit
start() {{ head -c $size "$f"; }}
nuls=$(start | tr -dc '\\000' | head -c 1 | wc -c)
if [ $nuls -ne 0 ]; then echo 0 $size 0 1
else
    echo $(start | wc -l) $size $(start | tail -c 1 | wc -l) 0
    start | tail -n +{offset} | head -n {limit} | {cut}head -c {_MAX_BYTES}
fi"""


def _binary(path: str, size: int) -> ReadResult:
    return {"path": path, "error": f"{path} is a binary file of {size} bytes: it holds NUL bytes, not text"}


def _shown(
    path: str, lines: list[str], offset: int, total: int, size: int, numbered: bool, is_unended: bool
) -> ReadResult:
    """Return the result for lines without newlines.

    Args:
        path: Path as given by the caller.
        lines: The lines.
        offset: Number of the first line.
        total: Number of lines in the file.
        size: Bytes of the file.
        numbered: True to number the lines.
        is_unended: True if the last line has no newline.
    """
    if numbered:
        content = "".join(f"{at:6d}|{cut_line(line)}\n" for at, line in enumerate(lines, offset))
    else:
        content = "".join(f"{line}\n" for line in lines)
        content = content[:-1] if is_unended else content
    truncated = offset - 1 + len(lines) < total
    shown = ReadResult(path=path, content=content, total_lines=total, file_size=size, truncated=truncated)
    if truncated:
        following = offset + len(lines)
        shown["hint"] = f"lines {offset}-{following - 1} of {total}; continue with offset={following}"
    return shown
