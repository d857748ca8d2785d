"""The fixed part of hermes_tools.py, for Python 3.8 and the standard library alone.

Everything private has a leading underscore, so that any other name is free for a tool.
"""

from __future__ import annotations

import json as _json
import os as _os

TYPE_CHECKING = False  # importing typing for it would cost each script milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ToolError", "json_parse", "retry", "shell_quote"]

_TOKEN = ""
_MAX_MESSAGE_BYTES = 0


class ToolError(Exception):
    """A tool call failed, was refused, or could not be sent. The message names the tool."""


class _NotGiven:
    def __repr__(self) -> str:
        return "<not given>"


# Stands for a default that can't be written down here; the tool itself has it.
_NOT_GIVEN = _NotGiven()


def json_parse(text: str | bytes) -> object:
    """Return the value of a JSON text; control characters inside strings are accepted."""
    return _json.loads(text, strict=False)


def shell_quote(s: str) -> str:
    """Return a text as one word of a shell command, whatever characters it holds."""
    import shlex

    return shlex.quote(s)


def retry(fn: Callable[[], object], max_attempts: int = 3, delay: float = 2) -> object:
    """Call `fn` until it raises no exception, and return its result.

    Waits `delay` seconds after the first failure and twice as long after each further one. The last attempt's
    exception is raised.
    """
    import time

    for attempt in range(1, max_attempts):
        try:
            return fn()
        except Exception:
            time.sleep(delay * 2 ** (attempt - 1))
    return fn()


def __getattr__(name: str) -> object:
    raise AttributeError("hermes_tools has no {!r}; it has {}".format(name, ", ".join(sorted(__all__))))


def _exchange(request_line: bytes) -> bytes:
    # The transport's source, which follows this part in the stub, defines it again.
    raise NotImplementedError


def _call(
    tool: str,
    positional_only: dict[str, object],
    named: dict[str, object],
    rest: tuple[object, ...],
    keywords: dict[str, object],
) -> object:
    values = {**positional_only, **named} if rest else positional_only
    args = [value for value in values.values() if value is not _NOT_GIVEN]
    by_name = keywords if rest else {**named, **keywords}
    kwargs = {name: value for name, value in by_name.items() if value is not _NOT_GIVEN}
    # Random, so that threads, forked children and other processes need nothing in common to be told apart.
    identity = _os.urandom(16).hex()
    # The token stands first: what does not begin with it is refused unread.
    request = {"token": _TOKEN, "id": identity, "tool": tool, "args": [*args, *rest], "kwargs": kwargs}
    try:
        line = _dump(request)
    except (TypeError, ValueError, RecursionError):
        rest_values = {f"*{index}": value for index, value in enumerate(rest)}
        raise _unsendable(tool, {**positional_only, **named, **rest_values, **keywords}) from None
    if len(line) > _MAX_MESSAGE_BYTES:
        raise ToolError(
            f"{tool}: the arguments take {len(line)} bytes, at most {_MAX_MESSAGE_BYTES} can be sent; "
            "put the data in a file and pass its path"
        )
    return _answer(tool, identity, line)


def _answer(tool: str, identity: str, line: bytes) -> object:
    try:
        answer = _json.loads(_exchange(line))
    except OSError as error:
        raise ToolError(f"{tool}: the tools can't be reached: {error}") from error
    except ValueError as error:
        raise ToolError(f"{tool}: the answer can't be read ({error}); is the disk full?") from error
    if "error" in answer:
        raise ToolError(answer["error"])
    if answer["id"] != identity:
        raise ToolError(f"{tool}: the answer belongs to another request")
    return answer["result"]


def _dump(value: object) -> bytes:
    return _json.dumps(value, allow_nan=False, separators=(",", ":")).encode("ascii") + b"\n"


def _unsendable(tool: str, arguments: dict[str, object]) -> TypeError:
    for name, value in arguments.items():
        if value is _NOT_GIVEN:
            continue
        try:
            _dump(value)
        except (TypeError, ValueError, RecursionError) as error:
            kind = type(value).__name__
            return TypeError(f"{tool}(): argument {name!r}, of type {kind}, can't be sent as JSON: {error}")
    return TypeError(f"{tool}(): the arguments can't be sent as JSON")
