"""Choosing a Python in the target as the shell text of `code_execution.interpreter` does, but in a Python."""

from __future__ import annotations

import os


def chosen(candidates: list[str], search_paths: list[str]) -> str | None:
    """Return the path of the first candidate that is there; None if none is.

    Args:
        candidates: Paths and names, the best first.
        search_paths: Where to look for names, each as a PATH, one after the other.
    """
    for name in candidates:
        places = [name] if "/" in name else _places(name, search_paths)
        for path in places:
            if os.access(path, os.X_OK) and not os.path.isdir(path):  # noqa: PTH112
                return path
    return None


def _places(name: str, search_paths: list[str]) -> list[str]:
    return [f"{entry}/{name}" for path in search_paths for entry in path.split(":") if entry]
