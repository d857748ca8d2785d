"""A tool's parameters as callers may see them: without bound values and without possible secrets."""

from __future__ import annotations

import ast
import contextlib
import functools
import inspect
import math
import textwrap
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import CodeType, FunctionType
from typing import Generic, TypeGuard, TypeVar

T = TypeVar("T")
MIN_HIDDEN_CHARACTERS = 6
"""Shorter bound texts are not removed from errors, because they occur in every sentence."""
HIDDEN = "[bound argument]"
"""Replacement for a bound value in an error."""


@dataclass(frozen=True, slots=True)
class Verbatim:
    """Source text in place of a default or an annotation; `str(signature)` prints the text as is."""

    text: str

    def __repr__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Described:
    """Facts about a tool made from a schema, in the attribute `__described__`."""

    arguments: Callable[..., Mapping[str, object]]
    """Returns a call's arguments by name, or raises TypeError."""
    handle: Callable[..., object]
    """Runs the calls."""


@dataclass(frozen=True, slots=True)
class ToolSignature:
    """Parameters for callers, and parameters and values to hide."""

    parameters: inspect.Signature | None
    """None for some functions in C, which check their arguments themselves."""
    hidden: frozenset[str] = frozenset()
    """Parameters whose default may be a credential and is never shown."""
    bound: frozenset[str] = frozenset()
    """Names bound by `functools.partial`; a caller may not pass them again."""
    values: tuple[str, ...] = field(default=(), repr=False)
    """Bound texts, the longest first."""
    described: Described | None = None
    """Set for a tool made from a schema."""

    @classmethod
    def of(cls, tool: Callable[..., object]) -> ToolSignature:
        """Return the signature of a tool; remembered as long as the tool exists."""
        return _known.of(tool, lambda: cls._inspect(tool))

    @classmethod
    def _inspect(cls, tool: Callable[..., object]) -> ToolSignature:
        found = getattr(tool, "__described__", None)
        described = found if isinstance(found, Described) else None
        partials = _partials(tool)
        bound = frozenset(name for partial in partials for name in partial.keywords)
        hidden_in = partials + (_partials(described.handle) if described else [])
        given = [value for partial in hidden_in for value in (*partial.args, *partial.keywords.values())]
        texts = {value for value in given if isinstance(value, str) and len(value) >= MIN_HIDDEN_CHARACTERS}
        parameters = _without(bound, _signature(tool))
        # Defaults in a schema were written to be shown.
        hidden = _hidden_defaults(tool, parameters) if parameters and not described else frozenset()
        return cls(parameters, hidden, bound, tuple(sorted(texts, key=len, reverse=True)), described)

    def check(self, args: list[object], kwargs: dict[str, object]) -> None:
        """Check a call's arguments.

        Raises:
            TypeError: The tool cannot be called with these arguments, or a name is bound already.
        """
        if taken := sorted(self.bound & kwargs.keys()):
            raise TypeError(f"got an unexpected keyword argument {taken[0]!r}")
        self.arguments(args, kwargs)

    def arguments(self, args: list[object], kwargs: dict[str, object]) -> Mapping[str, object]:
        """Return arguments by parameter name, as far as the names are known.

        Raises:
            TypeError: The tool cannot be called with these arguments.
        """
        if self.described:
            return self.described.arguments(*args, **kwargs)
        if self.parameters is None:
            return {"args": args, **kwargs}
        return self.parameters.bind(*args, **kwargs).arguments

    def shown(self) -> str:
        """Return the parameters as text for a script's author."""
        if self.parameters is None:
            return "(...)"
        shown = [
            parameter.replace(
                annotation=_as_written(parameter.annotation),
                default=Verbatim("...") if name in self.hidden else parameter.default,
            )
            for name, parameter in self.parameters.parameters.items()
        ]
        returned = _as_written(self.parameters.return_annotation)
        return str(self.parameters.replace(parameters=shown, return_annotation=returned))

    def without_bound(self, text: str) -> str:
        """Return a text with bound values replaced by `HIDDEN`."""
        for value in self.values:
            text = text.replace(value, HIDDEN)
        return text


def _as_written(annotation: object) -> object:
    """Return an annotation as printed; text without quotes."""
    if annotation is inspect.Signature.empty:
        return annotation
    return Verbatim(annotation if isinstance(annotation, str) else inspect.formatannotation(annotation))


class ToolCache(Generic[T]):
    """A cache of a value per tool, as long as the tool exists."""

    def __init__(self) -> None:
        self._kept: dict[int, tuple[weakref.ref[object], T]] = {}

    def of(self, tool: Callable[..., object], find: Callable[[], T]) -> T:
        """Return the cached value of a tool, or call `find`."""
        # A tool of this package bound to an environment equals all others of its kind, unless wrapped.
        own = getattr(tool, "__presents__", None) if not hasattr(tool, "__wrapped__") else None
        identity = own or tool
        kept = self._kept.get(id(identity))
        if kept and kept[0]() is identity:
            return kept[1]
        found = find()
        with contextlib.suppress(TypeError):  # the object allows no weak reference
            number = id(identity)
            self._kept[number] = weakref.ref(identity, lambda _: self._kept.pop(number, None)), found
        return found


_known: ToolCache[ToolSignature] = ToolCache()


def documentation(tool: Callable[..., object]) -> str | None:
    """Return a tool's docstring; for a partial, the docstring of its function."""
    for partial in _partials(tool):
        tool = partial.func
    return inspect.getdoc(tool)


def _layers(tool: object) -> Iterator[object]:
    """Yield the layers of a tool, the outermost first: partials, wrappers, methods, and at last a function."""
    seen: set[int] = set()
    while id(tool) not in seen:
        yield tool
        seen.add(id(tool))
        for inner in ("func", "__wrapped__", "__presents__", "__func__"):
            if inner != "func" or isinstance(tool, functools.partial):
                tool = getattr(tool, inner, tool)


def _partials(tool: object) -> list[functools.partial[object]]:
    return [layer for layer in _layers(tool) if isinstance(layer, functools.partial)]


def _hidden_defaults(tool: object, parameters: inspect.Signature) -> frozenset[str]:
    """Return the parameters whose defaults may be secret: no number, boolean or None, and no literal in a `def`."""
    doubtful = {
        name: parameter.default
        for name, parameter in parameters.parameters.items()
        if parameter.default is not parameter.empty and not _is_number(parameter.default)
    }
    if doubtful:
        for function in filter(_is_def, _layers(tool)):
            written = _literal_defaults(function.__code__)
            doubtful = {name: value for name, value in doubtful.items() if (name, repr(value)) not in written}
    return frozenset(doubtful)


def _is_number(value: object) -> bool:
    return value is None or type(value) in (bool, int) or (type(value) is float and math.isfinite(value))


def _is_def(tool: object) -> TypeGuard[FunctionType]:
    return isinstance(tool, FunctionType) and tool.__name__ != "<lambda>"


@functools.lru_cache(maxsize=256)
def _literal_defaults(code: CodeType) -> frozenset[tuple[str, str]]:
    """Return the literal defaults in a function's source, as pairs of name and `repr`."""
    try:
        module = parsed(textwrap.dedent(inspect.getsource(code)))
    except (OSError, TypeError, SyntaxError, ValueError):
        return frozenset()  # made by `exec` or at a prompt
    tree = next(ast.iter_child_nodes(module), None)
    if not isinstance(tree, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return frozenset()
    arguments = tree.args
    positional = [*arguments.posonlyargs, *arguments.args]
    by_place = zip(positional[len(positional) - len(arguments.defaults) :], arguments.defaults, strict=True)
    by_name = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    found = set()
    for argument, default in (*by_place, *by_name):
        if default is not None:
            try:
                found.add((argument.arg, repr(ast.literal_eval(default))))
            except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
                continue
    return frozenset(found)


def _signature(tool: Callable[..., object]) -> inspect.Signature | None:
    try:
        return inspect.signature(tool)
    except (TypeError, ValueError):
        return None


def _without(bound: frozenset[str], signature: inspect.Signature | None) -> inspect.Signature | None:
    if signature is None or not bound:
        return signature
    return signature.replace(
        parameters=[
            parameter
            for name, parameter in signature.parameters.items()
            if name not in bound or parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
        ]
    )


_parser_lock = threading.Lock()


def parsed(text: str, mode: str = "exec", feature_version: tuple[int, int] | None = None) -> ast.AST:
    """Parse Python source with `ast.parse`, in a single thread at a time.

    Until 3.11.8 CPython counted the depth of all threads' trees in one place. The garbage collector lets another thread
    run, and the parser raised a SystemError: https://github.com/python/cpython/issues/106905

    Args:
        text: The source.
        mode: `exec` or `eval`.
        feature_version: Python version of the syntax; None is this one's.

    Raises:
        SyntaxError, ValueError: The text is not Python.
    """
    with _parser_lock:
        return ast.parse(text, mode=mode, feature_version=feature_version)
