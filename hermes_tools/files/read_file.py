"""Read part of a text file, cut out in the target."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from environments.base import BaseEnvironment
from hermes_tools.files.long_lines import MAX_LINE_BYTES, cut_line, quoted
from hermes_tools.files.numbers import LONGEST, number
from hermes_tools.files.target_paths import failed_command_error, missing_file_error, shell_word, target_path

_MAX_BYTES = 4_000_000
"""What one call brings at most; below the default output cap of an environment."""
_MOST_LINES = 100_000
_LARGEST_NUMBER = 10**LONGEST - 1

_REFUSALS = {
    "directory": "{path} is a directory: list it with search_files('*', target='files', path=...)",
    "special": "{path} is not a regular file (a device, pipe or socket)",
    "unreadable": "{path} cannot be read: permission denied",
}


class ReadResult(TypedDict):
    """What `read_file` returns. Only `path` and `error` are there when it failed."""

    path: str
    content: NotRequired[str]
    total_lines: NotRequired[int]
    file_size: NotRequired[int]
    truncated: NotRequired[bool]
    hint: NotRequired[str]
    error: NotRequired[str]


def read_file(env: BaseEnvironment, path: str, offset: int = 1, limit: int = 500) -> ReadResult:
    """Read lines of a text file.

    Args:
        path: The file; relative paths start at the session's working directory, `~` is the home directory.
        offset: First line, counted from 1.
        limit: Most lines to return; 100,000 and 4 MB are.

    Returns:
        A dict with path, content (each line as a six-wide number, `|` and the text; lines over 2000 characters
        are cut with a note), total_lines, file_size in bytes, truncated (whether lines follow the last one
        returned), and hint (how to go on) when truncated. A missing or binary file gives path and error instead.

    Raises:
        ValueError: The path is empty, or offset or limit is below 1.
    """
    if offset < 1 or limit < 1:
        raise ValueError(f"offset and limit count from 1, not {offset} and {limit}")
    where = target_path(env, path)
    limit = min(limit, _MOST_LINES)
    result = env.internal.execute(_command(where, min(offset, _LARGEST_NUMBER), limit))
    if error := failed_command_error(result, f"reading {path}"):
        return {"path": path, "error": error}
    header, _, body = result.output.partition("\n")
    kind, *words = header.split()[:5] or [""]
    if kind == "missing":
        return {"path": path, "error": missing_file_error(env, where)}
    if kind in _REFUSALS:
        return {"path": path, "error": _REFUSALS[kind].format(path=path)}
    numbers = [value for word in words if (value := number(word)) is not None]
    if kind != "text" or len(numbers) != 4:
        return {"path": path, "error": f"reading {path} gave no answer but {quoted(header)}"}
    newlines, size, last_is_newline, nuls = numbers
    if result.omitted_bytes:
        body = body[: max(0, result.omitted_at - len(header) - 1)]
    if nuls:
        return {"path": path, "error": f"{path} is a binary file of {size} bytes: it holds NUL bytes, not text"}
    total = newlines + (1 if size and not last_is_newline else 0)
    return _shown(path, body, offset, min(limit, max(0, total - offset + 1)), total, size)


def _command(where: str, offset: int, limit: int) -> str:
    """Print one line on the file (kind, newlines, bytes, ends in a newline, has a NUL byte), then the lines wanted.

    A file that grows is read up to where it ended in the beginning, as it may grow faster than it is read.
    """
    return f"""
f={shell_word(where)}
if [ -d "$f" ]; then echo directory
elif [ ! -e "$f" ]; then echo missing
elif [ ! -f "$f" ]; then echo special
elif [ ! -r "$f" ]; then echo unreadable
else
    LC_ALL=C; export LC_ALL
    size=$(wc -c <"$f")
    start() {{ head -c $size "$f"; }}
    nuls=$(start | tr -dc '\\000' | head -c 1 | wc -c)
    if [ $nuls -ne 0 ]; then echo text 0 $size 0 1
    else
        echo text $(start | wc -l) $size $(tail -c 1 "$f" | wc -l) 0
        start | tail -n +{offset} | head -n {limit} | cut -b 1-{MAX_LINE_BYTES} | head -c {_MAX_BYTES}
    fi
fi"""


def _shown(path: str, body: str, offset: int, wanted: int, total: int, size: int) -> ReadResult:
    lines = body.split("\n")
    # `cut` ends every line with a newline, so what stands after the last one is a line that arrived in part.
    lines.pop()
    lines = lines[:wanted]
    shown = ReadResult(
        path=path,
        content="".join(f"{at:6d}|{cut_line(line)}\n" for at, line in enumerate(lines, offset)),
        total_lines=total,
        file_size=size,
        truncated=offset - 1 + len(lines) < total,
    )
    if shown["truncated"]:
        following = offset + len(lines)
        shown["hint"] = f"lines {offset}-{following - 1} of {total}; continue with offset={following}"
    return shown
