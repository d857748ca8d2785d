"""A tool's parameters as its callers may know them: without what was bound to it, and without what may be secret."""

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
"""Shorter texts that were bound to a tool are not looked for in its errors: they are words of every sentence."""
HIDDEN = "[bound argument]"
"""What stands in an error in the place of a value that was bound to the tool."""


@dataclass(frozen=True, slots=True)
class Verbatim:
    """Source text in the place of a default or an annotation; `str(signature)` prints it as it is."""

    text: str

    def __repr__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Described:
    """What a tool that was made of a schema knows of itself, as its attribute `__described__`."""

    arguments: Callable[..., Mapping[str, object]]
    """Returns a call's arguments by their names, or raises TypeError."""
    handle: Callable[..., object]
    """What runs its calls."""


@dataclass(frozen=True, slots=True)
class ToolSignature:
    """What a caller may pass, and what is kept from it."""

    parameters: inspect.Signature | None
    """None for some functions written in C, which check their arguments themselves."""
    hidden: frozenset[str] = frozenset()
    """Parameters of which the default may be a credential, and is not told to anybody."""
    bound: frozenset[str] = frozenset()
    """Names that were bound by `functools.partial`; a caller may not pass them again."""
    values: tuple[str, ...] = field(default=(), repr=False)
    """Texts that were bound, the longest first."""
    described: Described | None = None
    """What else there is to know of one that was made of a schema."""

    @classmethod
    def of(cls, tool: Callable[..., object]) -> ToolSignature:
        """Find out about a tool. What was found is remembered as long as the tool exists."""
        return _known.of(tool, lambda: cls._found(tool))

    @classmethod
    def _found(cls, tool: Callable[..., object]) -> ToolSignature:
        found = getattr(tool, "__described__", None)
        described = found if isinstance(found, Described) else None
        partials = _partials(tool)
        bound = frozenset(name for partial in partials for name in partial.keywords)
        hidden_in = partials + (_partials(described.handle) if described else [])
        given = [value for partial in hidden_in for value in (*partial.args, *partial.keywords.values())]
        texts = {value for value in given if isinstance(value, str) and len(value) >= MIN_HIDDEN_CHARACTERS}
        parameters = _without(bound, _signature(tool))
        # What stands in a schema was written to be shown.
        hidden = _hidden_defaults(tool, parameters) if parameters and not described else frozenset()
        return cls(parameters, hidden, bound, tuple(sorted(texts, key=len, reverse=True)), described)

    def check(self, args: list[object], kwargs: dict[str, object]) -> None:
        """Refuse arguments that the tool cannot be called with.

        Raises:
            TypeError: It cannot, or one of them is bound already.
        """
        if taken := sorted(self.bound & kwargs.keys()):
            raise TypeError(f"got an unexpected keyword argument {taken[0]!r}")
        self.arguments(args, kwargs)

    def arguments(self, args: list[object], kwargs: dict[str, object]) -> Mapping[str, object]:
        """Return arguments by the names of the parameters, as far as these are known.

        Raises:
            TypeError: The tool cannot be called with them.
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
        """Return a text without the values that were bound to the tool."""
        for value in self.values:
            text = text.replace(value, HIDDEN)
        return text


def _as_written(annotation: object) -> object:
    """Return an annotation as it is printed: one that is text without quotes."""
    if annotation is inspect.Signature.empty:
        return annotation
    return Verbatim(annotation if isinstance(annotation, str) else inspect.formatannotation(annotation))


class PerTool(Generic[T]):
    """Remembers one thing of each tool, as long as the tool exists."""

    def __init__(self) -> None:
        self._kept: dict[int, tuple[weakref.ref[object], T]] = {}

    def of(self, tool: Callable[..., object], find: Callable[[], T]) -> T:
        """Return what is remembered of a tool, or find it."""
        # One of ours that is bound to an environment is like all others of its kind, unless somebody has wrapped it.
        own = getattr(tool, "__presents__", None) if not hasattr(tool, "__wrapped__") else None
        identity = own or tool
        kept = self._kept.get(id(identity))
        if kept and kept[0]() is identity:
            return kept[1]
        found = find()
        with contextlib.suppress(TypeError):  # nothing can refer to it weakly
            number = id(identity)
            self._kept[number] = weakref.ref(identity, lambda _: self._kept.pop(number, None)), found
        return found


_known: PerTool[ToolSignature] = PerTool()


def documentation(tool: Callable[..., object]) -> str | None:
    """Return the docstring of a tool; of a partial, that of its function."""
    for partial in _partials(tool):
        tool = partial.func
    return inspect.getdoc(tool)


def _layers(tool: object) -> Iterator[object]:
    """Go through what a tool is made of, the outermost first: partials, wrappers, methods, and a function at last."""
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
    """Return the parameters whose defaults are of unknown origin: no number or the like, and not written in a `def`."""
    doubtful = {
        name: parameter.default
        for name, parameter in parameters.parameters.items()
        if parameter.default is not parameter.empty and not _is_number(parameter.default)
    }
    if doubtful:
        for function in filter(_is_def, _layers(tool)):
            written = _written_defaults(function.__code__)
            doubtful = {name: value for name, value in doubtful.items() if (name, repr(value)) not in written}
    return frozenset(doubtful)


def _is_number(value: object) -> bool:
    return value is None or type(value) in (bool, int) or (type(value) is float and math.isfinite(value))


def _is_def(tool: object) -> TypeGuard[FunctionType]:
    return isinstance(tool, FunctionType) and tool.__name__ != "<lambda>"


@functools.lru_cache(maxsize=256)
def _written_defaults(code: CodeType) -> frozenset[tuple[str, str]]:
    """Return the defaults that stand in a function's source as literals, as pairs of name and `repr`."""
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


_one_at_a_time = threading.Lock()


def parsed(text: str, mode: str = "exec", feature_version: tuple[int, int] | None = None) -> ast.AST:
    """Return the tree of a source text, see `ast.parse`, whatever other threads of ours parse.

    CPython counted the depth of all threads' trees in one place until 3.11.8, so that the garbage collector, which lets
    another thread go on, made one raise a SystemError: https://github.com/python/cpython/issues/106905

    Args:
        text: The source.
        mode: `exec` or `eval`.
        feature_version: The Python version whose syntax it is, this one's if it is None.

    Raises:
        SyntaxError, ValueError: It is no Python.
    """
    with _one_at_a_time:
        return ast.parse(text, mode=mode, feature_version=feature_version)
