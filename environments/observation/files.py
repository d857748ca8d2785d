"""What is told of the calls that an environment's files are reached by."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import CodeType
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from environments.observation.observation import Facts, Kind
from environments.observation.seam import current_observation

if TYPE_CHECKING:
    from environments.base import BaseEnvironment

_P = ParamSpec("_P")
_R = TypeVar("_R")

TRANSFERS = frozenset(("write_bytes", "read_bytes", "put_file", "get_file", "put_dir", "get_dir"))
"""Those that move something. The others look, or change what there is."""
_KEYS = {"remote": "path", "path": "path", "local": "local"}
_Env = TypeVar("_Env", bound="BaseEnvironment")


def watched_call(method: Callable[Concatenate[_Env, _P], _R]) -> Callable[Concatenate[_Env, _P], _R]:
    """Return one of the file methods of an environment that tells of itself, unless it is part of another."""
    operation = method.__name__
    kind: Kind = "transfer" if operation in TRANSFERS else "file"
    code: CodeType | None = getattr(inspect.unwrap(method), "__code__", None)
    names = code.co_varnames[1 : code.co_argcount] if code else ()

    @functools.wraps(method)
    def call(self: _Env, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        if current_observation().is_of_files(self.observation):
            return method(self, *args, **kwargs)

        given = {**dict(zip(names, args, strict=False)), **kwargs}

        def facts() -> Facts:
            return {"operation": operation, **{key: str(given[name]) for name, key in _KEYS.items() if name in given}}

        with self.observation.observed(kind, operation, facts) as seen:
            result = method(self, *args, **kwargs)
            moved = result if operation == "read_bytes" else given.get("data")
            if isinstance(moved, bytes | bytearray | memoryview):
                seen.tell(bytes=len(moved))
            return result

    return call
