"""Read part of a text file, cut out in the target."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from environments.base import BaseEnvironment
from hermes_tools.files.long_lines import MAX_LINE_BYTES, cut_line
from hermes_tools.files.target_paths import failed_command_error, missing_file_error, shell_word, target_path

_MAX_BYTES = 4_000_000
"""What one call brings at most; below the default output cap of an environment."""

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
        limit: Most lines to return.

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
    result = env.execute_oneshot(_command(where, offset, limit))
    if error := failed_command_error(result, f"reading {path}"):
        return {"path": path, "error": error}
    header, _, body = result.output.partition("\n")
    kind, *numbers = header.split()
    if kind == "missing":
        return {"path": path, "error": missing_file_error(env, where)}
    if kind in _REFUSALS:
        return {"path": path, "error": _REFUSALS[kind].format(path=path)}
    newlines, size, last_is_newline, nuls = (int(number) for number in numbers)
    if result.omitted_bytes:
        body = body[: result.omitted_at - len(header) - 1]
    if nuls:
        return {"path": path, "error": f"{path} is a binary file of {size} bytes: it holds NUL bytes, not text"}
    total = newlines + (1 if size and not last_is_newline else 0)
    return _shown(path, body, offset, min(limit, max(0, total - offset + 1)), total, size)


def _command(where: str, offset: int, limit: int) -> str:
    """Print one line on the file (kind, newlines, bytes, ends in a newline, has a NUL byte), then the lines wanted."""
    return f"""
f={shell_word(where)}
if [ -d "$f" ]; then echo directory
elif [ ! -e "$f" ]; then echo missing
elif [ ! -f "$f" ]; then echo special
elif [ ! -r "$f" ]; then echo unreadable
else
    LC_ALL=C; export LC_ALL
    nuls=$(tr -dc '\\000' <"$f" | head -c 1 | wc -c)
    echo text $(wc -lc <"$f") $(tail -c 1 "$f" | wc -l) $nuls
    [ $nuls -ne 0 ] || tail -n +{offset} "$f" | head -n {limit} | cut -b 1-{MAX_LINE_BYTES} | head -c {_MAX_BYTES}
fi"""


def _shown(path: str, body: str, offset: int, wanted: int, total: int, size: int) -> ReadResult:
    lines = body.split("\n")
    # `cut` ends every line with a newline, so what stands after the last one is a line that arrived in part.
    lines.pop()
    lines = lines[:wanted]
    shown = ReadResult(
        path=path,
        content="".join(f"{number:6d}|{cut_line(line)}\n" for number, line in enumerate(lines, offset)),
        total_lines=total,
        file_size=size,
        truncated=offset - 1 + len(lines) < total,
    )
    if shown["truncated"]:
        following = offset + len(lines)
        shown["hint"] = f"lines {offset}-{following - 1} of {total}; continue with offset={following}"
    return shown
