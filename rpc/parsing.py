"""Python source as a tree, in several threads at once."""

from __future__ import annotations

import ast
import threading

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
