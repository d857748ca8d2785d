"""Write a text file in one step."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from environments.base import BaseEnvironment
from environments.errors import EnvironmentLostError, EnvironmentStartError, TerminalError
from hermes_tools.files.sizes import MAX_BYTES, MAX_WRITTEN_BYTES
from hermes_tools.files.target_paths import failed_command_error, shell_word, target_path
from hermes_tools.files.write_guard import REFUSED, WriteGuard


class WriteResult(TypedDict):
    """What `write_file` returns. Only `path` and `error` are there when it failed."""

    path: str
    bytes_written: NotRequired[int]
    created: NotRequired[bool]
    error: NotRequired[str]


def write_file(env: BaseEnvironment, path: str, content: str) -> WriteResult:
    """Write a text file, whole and in one step: a reader sees the old text or the new, never a part.

    Missing parent directories are made. An existing file keeps its mode, a symbolic link keeps pointing to the
    file that is written, and a file (of at most 10 MB) whose lines all end in CRLF is written with CRLF. Where the
    settings `write_denylist` and `write_safe_root` say so, nothing is written.

    Args:
        path: The file; relative paths start at the session's working directory, `~` is the home directory.
        content: The new text, written as UTF-8, at most 30 MB.

    Returns:
        A dict with path, bytes_written and created (whether the file is new). When the file could not be
        written: path and error.

    Raises:
        ValueError: The path is empty, or the content has characters that UTF-8 cannot hold.
    """
    where = target_path(env, path)
    data = content.encode()
    if len(data) > MAX_WRITTEN_BYTES:
        return {"path": path, "error": f"{path} is not written: {len(data):,} bytes are over {MAX_WRITTEN_BYTES:,}"}
    guard = WriteGuard.of(env)
    state = env.internal.execute(_state_command(where, guard))
    if error := failed_command_error(state, f"writing {path}"):
        return {"path": path, "error": error}
    kind = state.output.strip()
    if kind in ("directory", "special"):
        return {"path": path, "error": f"{path} exists and is not a regular file ({kind})"}
    if kind.startswith(REFUSED):
        return {"path": path, "error": guard.refusal(path, kind)}
    if kind == "crlf":
        data = data.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
    try:
        env.write_bytes(where, data)
    except (EnvironmentLostError, EnvironmentStartError):
        raise
    except TerminalError as error:
        return {"path": path, "error": str(error)}
    return {"path": path, "bytes_written": len(data), "created": kind == "missing"}


def _state_command(where: str, guard: WriteGuard) -> str:
    """Print what stands at the path; `crlf` is a file that has newlines, each after a carriage return.

    `grep` fails where no line ends in one, so that the lines of most files are not counted.
    """
    return f"""
{guard.shell_text()}
f={shell_word(where)}
if [ -d "$f" ]; then echo directory
elif [ -e "$f" ] && [ ! -f "$f" ]; then echo special
elif refused "$f"; then :
elif [ ! -e "$f" ]; then echo missing
elif [ ! -s "$f" ] || [ "$(wc -c <"$f")" -gt {MAX_BYTES} ]; then echo file
elif ends=$(LC_ALL=C grep -a -c '\r$' "$f") && [ "$ends" -eq "$(wc -l <"$f")" ]; then echo crlf
else echo file
fi"""
