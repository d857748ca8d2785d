"""The fixed part of hermes_tools.py, for Python 3.8 and the standard library alone.

Everything private has a leading underscore, so that any other name is free for a tool.
"""

from __future__ import annotations

import functools as _functools
import json as _json
import os as _os

TYPE_CHECKING = False  # importing typing for it would cost each script milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable

    _Given = tuple[dict[str, object], dict[str, object], tuple[object, ...], dict[str, object]]

__all__ = ["ToolError", "json_parse", "retry", "shell_quote"]

_TOKEN = ""
_MAX_MESSAGE_BYTES = 0
_RAISES = False
_ENCODER = _json.JSONEncoder(allow_nan=False, separators=(",", ":"))


class ToolError(Exception):
    """A tool call was refused, or the tools can't be reached. The message names the tool."""


class _NotGiven:
    def __repr__(self) -> str:
        return "..."


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
    """Call `fn` until it succeeds, and return its result: one that is no dict with an `error` in it.

    Waits `delay` seconds after the first failure and twice as long after each further one. What the last attempt
    returns is returned, and what it raises is raised.
    """
    import time

    for attempt in range(1, max_attempts):
        failed: object = True
        try:
            result = fn()
            failed = type(result) is dict and result.get("error")
        except Exception:
            result = None
        if not failed:
            return result
        time.sleep(delay * 2 ** (attempt - 1))
    return fn()


def _exchange(request_line: bytes) -> bytes:
    # The transport's source, which follows this part in the stub, defines it again.
    raise NotImplementedError


def _tool(given: Callable[..., _Given]) -> Callable[..., object]:
    """Make the function that calls a tool of one that has its signature and returns what it was given."""

    @_functools.wraps(given)
    def call(*args: object, **kwargs: object) -> object:
        try:
            arguments = given(*args, **kwargs)
        except TypeError as error:
            problem = _wrong_arguments(given, error)
        else:
            return _call(given.__name__, *arguments)
        return _refused(problem)

    return call


def _wrong_arguments(given: Callable[..., _Given], error: TypeError) -> str:
    import inspect

    signature = inspect.signature(given)
    bare = [parameter.replace(annotation=parameter.empty) for parameter in signature.parameters.values()]
    shown = signature.replace(parameters=bare, return_annotation=signature.empty)
    return f"{given.__name__}: wrong arguments: {error}; the call is {given.__name__}{shown}"


def _refused(problem: str) -> dict[str, object]:
    if _RAISES:
        raise ToolError(problem) from None
    return {"error": problem}


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
        problem = _unsendable({**positional_only, **named, **rest_values, **keywords})
        return _refused(f"{tool}: wrong arguments: {problem}")
    if len(line) > _MAX_MESSAGE_BYTES:
        return _refused(
            f"{tool}: the arguments take {len(line)} bytes, at most {_MAX_MESSAGE_BYTES} can be sent; "
            "put the data in a file and pass its path"
        )
    return _answer(tool, identity, line)


def _answer(tool: str, identity: str, line: bytes) -> object:
    try:
        answer = _json.loads(_exchange(line))
    except OSError as error:
        raise ToolError(f"{tool}: the tools can't be reached: {error}") from None
    except ValueError as error:
        raise ToolError(f"{tool}: the answer can't be read ({error}); is the disk full?") from None
    if "error" in answer:
        # What could not be read as a request has no id, and its answer does not know the tool.
        return _refused(answer["error"] if answer["id"] else f"{tool}: {answer['error']}")
    if answer["id"] != identity:
        raise ToolError(f"{tool}: the answer belongs to another request")
    return answer["result"]


def _dump(value: object) -> bytes:
    return _ENCODER.encode(value).encode("ascii") + b"\n"


def _unsendable(arguments: dict[str, object]) -> str:
    for name, value in arguments.items():
        if value is _NOT_GIVEN:
            continue
        try:
            _dump(value)
        except (TypeError, ValueError, RecursionError) as error:
            return f"{name!r}, of type {type(value).__name__}, can't be sent as JSON: {error}"
    return "they can't be sent as JSON"
