"""Write a text file in one step."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from environments.base import BaseEnvironment
from environments.errors import EnvironmentLostError, EnvironmentStartError, TerminalError
from hermes_tools.files.target_paths import failed_command_error, shell_word, target_path


class WriteResult(TypedDict):
    """What `write_file` returns. Only `path` and `error` are there when it failed."""

    path: str
    bytes_written: NotRequired[int]
    created: NotRequired[bool]
    error: NotRequired[str]


def write_file(env: BaseEnvironment, path: str, content: str) -> WriteResult:
    """Write a text file, whole and in one step: a reader sees the old text or the new, never a part.

    Missing parent directories are made. An existing file keeps its mode, a symbolic link keeps pointing to the
    file that is written, and a file whose lines all end in CRLF is written with CRLF.

    Args:
        path: The file; relative paths start at the session's working directory, `~` is the home directory.
        content: The new text, written as UTF-8.

    Returns:
        A dict with path, bytes_written and created (whether the file is new). When the file could not be
        written: path and error.

    Raises:
        ValueError: The path is empty, or the content has characters that UTF-8 cannot hold.
    """
    where = target_path(env, path)
    state = env.execute_oneshot(_state_command(where))
    if error := failed_command_error(state, f"writing {path}"):
        return {"path": path, "error": error}
    kind = state.output.strip()
    if kind in ("directory", "special"):
        return {"path": path, "error": f"{path} exists and is not a regular file ({kind})"}
    if kind == "crlf":
        content = content.replace("\r\n", "\n").replace("\n", "\r\n")
    data = content.encode()
    try:
        env.write_bytes(where, data)
    except (EnvironmentLostError, EnvironmentStartError):
        raise
    except TerminalError as error:
        return {"path": path, "error": str(error)}
    return {"path": path, "bytes_written": len(data), "created": kind == "missing"}


def _state_command(where: str) -> str:
    """Print what stands at the path; `crlf` is a file that has newlines, each after a carriage return."""
    return f"""
f={shell_word(where)}
if [ -d "$f" ]; then echo directory
elif [ ! -e "$f" ]; then echo missing
elif [ ! -f "$f" ]; then echo special
else
    newlines=$(wc -l <"$f")
    if [ "$newlines" -gt 0 ] && [ "$newlines" -eq "$(LC_ALL=C grep -a -c "$(printf '\\r')\\$" "$f")" ]
    then echo crlf
    else echo file
    fi
fi"""
