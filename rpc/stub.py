"""The stub: generates `hermes_tools.py`, the module for a script's tool calls."""

from __future__ import annotations

import ast
import builtins
import inspect
import keyword
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from typing import Literal

from rpc import stub_runtime
from rpc.messages import MAX_MESSAGE_BYTES
from rpc.signatures import ToolCache, ToolSignature, Verbatim, documentation, parsed
from rpc.target_source import FUTURE, target_source

_HEADER = '"""The tools of the program that runs this script. Generated; do not edit."""\n\n'

_RESTRICT_PATH = """
# A project may have own modules under the names that are imported below.
import os as _os
import sys as _sys
_path, _library = _sys.path[:], _os.path.dirname(_os.__file__)
_sys.path[:] = [_entry for _entry in _path if _entry.startswith(_library)]
"""
_RESTORE_PATH = "_sys.path[:] = _path\n"
SOCKET, FILE_QUEUE = "socket_client.py", "file_queue_client.py"
"""The transports' parts of the stub."""

ToolErrors = Literal["raise", "return"]
"""Effect of a refused call in the script: raise `ToolError`, or return `{"error": ...}` as a failed tool does."""

_NOT_GIVEN = "_NOT_GIVEN"
_rendered_tools: ToolCache[str] = ToolCache()

_ANNOTATION_NODES = (
    ast.Expression,
    ast.Name,
    ast.Attribute,
    ast.Subscript,
    ast.Constant,
    ast.Tuple,
    ast.List,
    ast.BinOp,
    ast.BitOr,
    ast.UnaryOp,
    ast.USub,
    ast.Load,
)
"""Syntax allowed in annotations. Other expressions may have effects, or fail on Python 3.8."""


def generate_stub(handlers: Mapping[str, Callable[..., object]], client: str, tool_errors: ToolErrors = "raise") -> str:
    """Return the source of `hermes_tools.py`, for Python 3.8 or later in the target.

    The module has a function for each handler, with the handler's signature and docstring, and the helpers
    `json_parse`, `shell_quote`, `retry` and `ToolError`. Values bound by `functools.partial` stay here, and so do
    defaults that are not literals in a `def`. The token and the transport's address differ for each script and are in
    the file `own` beside the module; see `own_file`.

    Args:
        handlers: Tool name to function, as given to the dispatcher.
        client: The transport's part, `SOCKET` or `FILE_QUEUE`.
        tool_errors: Effect of a refused call.

    Raises:
        ValueError: A handler's name can't be used in the module.
    """
    for name in handlers:
        check_name(name)
    functions = [_render_function(name, handler) for name, handler in handlers.items()]
    exported = f"__all__ = {sorted([*stub_runtime.__all__, *handlers])!r}\n"
    parts = [*_fixed_parts(client, tool_errors == "raise"), *functions, exported]
    return "\n\n".join([_HEADER + FUTURE, *parts])


def own_file(token: str, place: str) -> str:
    """Return the content of the file `own`.

    Args:
        token: The dispatcher's token.
        place: Path of the socket or of the queue's directory.
    """
    return f"{token}\n{place}"


@cache
def _fixed_parts(client: str, raises: bool) -> tuple[str, ...]:
    runtime = target_source("stub_runtime.py", _MAX_MESSAGE_BYTES=MAX_MESSAGE_BYTES, _RAISES=raises)
    return _RESTRICT_PATH, runtime, target_source(client), _RESTORE_PATH


@cache
def _reserved() -> frozenset[str]:
    """Return the names of helpers and of builtins used by the fixed code, for both transports."""
    fixed = [parsed(target_source(name)) for name in ("stub_runtime.py", SOCKET, FILE_QUEUE)]
    for node in (node for tree in fixed for node in ast.walk(tree)):
        for annotation in ("annotation", "returns"):  # never evaluated in the target
            if hasattr(node, annotation):
                setattr(node, annotation, None)
    used = {node.id for tree in fixed for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return frozenset(stub_runtime.__all__) | used & set(dir(builtins))


def check_name(name: str) -> None:
    """Check a tool's name.

    Raises:
        ValueError: The name can't be used in the module.
    """
    if not name.isidentifier() or keyword.iskeyword(name):
        raise ValueError(f"the tool name {name!r} is not a Python identifier, so no script could import it")
    if name.startswith("_"):
        raise ValueError(f"the tool name {name!r} begins with an underscore: such names are reserved in hermes_tools")
    if name in _reserved():
        raise ValueError(f"the tool name {name!r} is reserved: the module hermes_tools uses it")


def _render_function(name: str, handler: Callable[..., object]) -> str:
    """Return the source of a function returning the given arguments; the decorator `_tool` makes the call."""
    return f"@_tool\ndef {name}{_rendered_tools.of(handler, lambda: _rendered_tool(handler))}"


def _rendered_tool(handler: Callable[..., object]) -> str:
    """Return the source after the function's name."""
    known = ToolSignature.of(handler)
    # Some functions in C have no signature and check their arguments themselves.
    signature = known.parameters or inspect.signature(lambda *args, **kwargs: None)
    names: dict[object, list[str]] = {}
    for parameter in signature.parameters.values():
        names.setdefault(parameter.kind, []).append(parameter.name)
    kind = inspect.Parameter
    arguments = [
        _dict_of(names.get(kind.POSITIONAL_ONLY, [])),
        _dict_of(names.get(kind.POSITIONAL_OR_KEYWORD, [])),
        *names.get(kind.VAR_POSITIONAL, ["()"]),
        _dict_of(names.get(kind.KEYWORD_ONLY, []), names.get(kind.VAR_KEYWORD, [])),
    ]
    doc = documentation(handler)
    lines = [
        f"{_rendered(signature, known.hidden)}:",
        *([f"    {doc!r}"] if doc else []),
        f"    return {', '.join(arguments)}",
    ]
    return "\n".join(lines) + "\n"


def _dict_of(names: list[str], unpacked: Sequence[str] = ()) -> str:
    items = [f"{name!r}: {name}" for name in names] + [f"**{name}" for name in unpacked]
    return "{" + ", ".join(items) + "}"


def _rendered(signature: inspect.Signature, hidden: Collection[str]) -> str:
    parameters = []
    is_row_cut = False
    for name, parameter in signature.parameters.items():
        default = parameter.default
        if default is not parameter.empty:
            is_in_row = parameter.kind is parameter.POSITIONAL_ONLY
            default = _default(default, hidden=name in hidden or (is_in_row and is_row_cut))
            # Positional-only arguments are sent in a row: after an omitted one, no other may be sent.
            is_row_cut = is_in_row and default.text == _NOT_GIVEN
        parameters.append(parameter.replace(annotation=_annotation(parameter.annotation), default=default))
    returned = _annotation(signature.return_annotation)
    return str(signature.replace(parameters=parameters, return_annotation=returned))


def _default(value: object, *, hidden: bool) -> Verbatim:
    # Only a default that is no secret and survives JSON: a tuple would arrive as a list. The tool itself has the
    # others.
    return Verbatim(repr(value) if _is_plain(value) and not hidden else _NOT_GIVEN)


def _is_plain(value: object) -> bool:
    if type(value) is float:
        return math.isfinite(value)
    if type(value) is list:
        return all(map(_is_plain, value))
    if type(value) is dict:
        return all(type(key) is str and _is_plain(item) for key, item in value.items())
    return value is None or type(value) in (bool, int, str)


def _annotation(annotation: object) -> object:
    if annotation is inspect.Signature.empty:
        return annotation
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    found = _portable_type(text)
    return inspect.Signature.empty if found is None else Verbatim(found)


@cache
def _portable_type(text: str) -> str | None:
    """Return an annotation in the syntax of Python 3.8, or None."""
    try:
        tree = parsed(text, "eval", (3, 8))
    except (SyntaxError, ValueError):
        return None
    portable = all(isinstance(node, _ANNOTATION_NODES) for node in ast.walk(tree))
    return ast.unparse(tree) if portable else None
