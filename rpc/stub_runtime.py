"""The fixed part of hermes_tools.py, for Python 3.8 and the standard library alone.

Private names have a leading underscore; any other name is free for a tool. Only modules the interpreter
has in C are imported: `json`, `socket`, `functools` and `threading` would cost each script as much as starting Python
does.
"""

from __future__ import annotations

import os as _os
import sys as _sys

try:
    import _json
except ImportError:  # another Python than CPython
    _json = None  # type: ignore[assignment]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType, TracebackType
    from typing import Any

    _Given = tuple[dict[str, object], dict[str, object], tuple[object, ...], dict[str, object]]

__all__ = ["ToolError", "json_parse", "retry", "shell_quote"]

_MAX_MESSAGE_BYTES = 0
_RAISES = False


class ToolError(Exception):
    """A tool call was refused, or the tools can't be reached. The message names the tool."""


class _NotGiven:
    def __repr__(self) -> str:
        return "..."


# A default that can't be written here; the tool itself has the value.
_NOT_GIVEN = _NotGiven()


def json_parse(text: str | bytes) -> object:
    """Return the value of a JSON text; control characters inside strings are accepted."""
    import json

    return json.loads(text, strict=False)


def shell_quote(s: str) -> str:
    """Return a text as a single word of a shell command, with any characters."""
    import shlex

    return shlex.quote(s)


def retry(fn: Callable[[], object], max_attempts: int = 3, delay: float = 2) -> object:
    """Call `fn` until it succeeds, and return the result. A dict with an `error` is a failure.

    Waits `delay` seconds after the first failure and twice as long after each further failure. The last result is
    returned, and the last exception raised.
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


# The file `own` beside this module: the token of this script's calls, and the address of the transport.


def _own() -> list[str]:
    global _OWN  # noqa: PLW0603
    if _OWN is None:
        with open(__file__.rpartition("/")[0] + "/own", encoding="utf-8") as file:
            _OWN = file.read().split("\n", 1)
    return _OWN


_OWN: list[str] | None = None


# JSON.


class _Rules:
    strict = True
    object_hook = object_pairs_hook = None
    parse_float, parse_int = float, int
    memo: dict[str, str] = {}  # noqa: RUF012

    @staticmethod
    def parse_constant(name: str) -> float:
        return float(name.replace("Infinity", "inf"))


def _unknown(value: object) -> object:
    raise TypeError("Object of type " + type(value).__name__ + " is not JSON serializable")


_dumps: Callable[[object], str]
_loads: Callable[[bytes], Any]

if _json is None:
    import json

    _dumps, _loads = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode, json.loads
else:
    _scan = _json.make_scanner(_Rules)  # type: ignore[arg-type]  # the scanner reads these attributes alone

    def _dumps(value: object) -> str:
        # A new encoder for each value, because an encoder remembers containers in progress.
        encode = _json.make_encoder({}, _unknown, _json.encode_basestring_ascii, None, ":", ",", False, False, False)
        return "".join(encode(value, 0))

    def _loads(text: bytes) -> object:
        try:
            value, end = _scan(text.decode(), 0)
        except StopIteration:
            raise ValueError("it is no JSON") from None
        if text[end:].strip():
            raise ValueError("more follows")
        return value


def _exchange(request_line: bytes) -> bytes:
    # The transport's source, which follows this part in the stub, defines this function again.
    raise NotImplementedError


def _tool(given: Callable[..., _Given]) -> Callable[..., object]:
    """Make a tool's function from a stub with the tool's signature, which returns the arguments."""

    def call(*args: object, **kwargs: object) -> object:
        try:
            arguments = given(*args, **kwargs)
        except TypeError as error:
            problem = _wrong_arguments(given, error)
        else:
            return _call(given.__name__, *arguments)
        return _refused(problem)

    for name in ("__module__", "__name__", "__qualname__", "__doc__"):
        setattr(call, name, getattr(given, name))
    call.__dict__["__wrapped__"] = given  # `inspect` reads the signature from there
    call.__annotations__ = given.__annotations__
    return call


def _wrong_arguments(given: Callable[..., _Given], error: TypeError) -> str:
    import inspect

    signature = inspect.signature(given)
    bare = [parameter.replace(annotation=parameter.empty) for parameter in signature.parameters.values()]
    shown = signature.replace(parameters=bare, return_annotation=signature.empty)
    return f"{given.__name__}: wrong arguments: {error}; the call is {given.__name__}{shown}"


def _refused(problem: str) -> dict[str, object]:
    if _RAISES:
        _hide_in_threads()
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
    # Random, so that threads, forked children and other processes get different ids without sharing state.
    identity = _os.urandom(16).hex()
    # The token stands first: a line with another beginning is refused unread.
    request = {"token": _own()[0], "id": identity, "tool": tool, "args": [*args, *rest], "kwargs": kwargs}
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
    problem = ""
    try:
        answer: dict[str, object] = _loads(_exchange(line))
    except OSError as error:
        problem = f"{tool}: the tools can't be reached: {error}"
    except ValueError as error:
        problem = f"{tool}: the answer can't be read ({error}); is the disk full?"
    else:
        if "error" in answer:
            # A request that could not be read has no id, and the answer does not name the tool.
            return _refused(str(answer["error"]) if answer["id"] else f"{tool}: {answer['error']}")
        if answer["id"] == identity:
            return answer["result"]
        problem = f"{tool}: the answer belongs to another request"
    _hide_in_threads()
    raise ToolError(problem) from None


def _dump(value: object) -> bytes:
    return _dumps(value).encode("ascii") + b"\n"


def _unsendable(arguments: dict[str, object]) -> str:
    for name, value in arguments.items():
        if value is _NOT_GIVEN:
            continue
        try:
            _dump(value)
        except (TypeError, ValueError, RecursionError) as error:
            return f"{name!r}, of type {type(value).__name__}, can't be sent as JSON: {error}"
    return "they can't be sent as JSON"


# Errors in the script: without frames of hermes_tools, and with the available names.


def __getattr__(name: str) -> object:
    what = f"there are: {', '.join(sorted(__all__))}{_suggestion(name)}"
    # Python turns an AttributeError into an ImportError and drops the message.
    if _is_imported(_sys._getframe(1)):
        raise ImportError(f"cannot import name {name!r} from 'hermes_tools'; {what}", name="hermes_tools")
    error = AttributeError(f"hermes_tools has no {name!r}; {what}")
    error.name = name  # or Python would add a suggestion of its own
    raise error


def _suggestion(name: str) -> str:
    import difflib

    near = difflib.get_close_matches(name, __all__, 1)
    return f"; did you mean {near[0]!r}?" if near else ""


def _is_imported(frame: FrameType) -> bool:
    import opcode

    code, at = frame.f_code.co_code, frame.f_lasti
    while 0 <= at < len(code) and code[at] == opcode.EXTENDED_ARG:  # the prefix, up to Python 3.10
        at += 2
    return 0 <= at < len(code) and code[at] == opcode.opmap["IMPORT_FROM"]


_shown_before = _sys.excepthook


def _show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    _hide_frames(error)
    _shown_before(kind, error, error.__traceback__)


_sys.excepthook = _show


def _hide_in_threads() -> None:
    # Once `threading` is imported, there may be threads, whose errors another hook shows.
    global _hides_in_threads  # noqa: PLW0603
    threading: Any = _sys.modules.get("threading")
    if threading is None or _hides_in_threads:
        return
    _hides_in_threads = True
    shown_before, arguments = threading.excepthook, threading.ExceptHookArgs

    def show(args: object) -> None:
        kind, error, thread = args.exc_type, args.exc_value, args.thread  # type: ignore[attr-defined]
        if error is not None:
            _hide_frames(error)
            args = arguments((kind, error, error.__traceback__, thread))
        shown_before(args)

    threading.excepthook = show


_hides_in_threads = False


def _hide_frames(error: BaseException) -> None:
    waiting: list[BaseException | None] = [error]
    seen: list[BaseException] = []
    while waiting:
        each = waiting.pop()
        if each is not None and each not in seen:
            seen.append(each)
            each.__traceback__ = _without_module_frames(each.__traceback__)
            waiting += [each.__cause__, each.__context__, *getattr(each, "exceptions", ())]


def _without_module_frames(trace: TracebackType | None) -> TracebackType | None:
    kept = []
    while trace is not None:
        if trace.tb_frame.f_globals is not _without_module_frames.__globals__:
            kept.append(trace)
        trace = trace.tb_next
    for number, each in enumerate(kept, 1):
        each.tb_next = kept[number] if number < len(kept) else None
    return kept[0] if kept else None
