"""The names of our packages, which a user's own modules may have taken.

This file is run by its path, as `environments` may be the name that is taken: it imports nothing of ours.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

PACKAGES = ("environments", "rpc", "hermes_tools", "code_execution")
HERE = Path(__file__).resolve().parents[1]


def name_conflict() -> str | None:
    """Say which of our packages would not be imported, as something else of its name comes first, and what helps.

    Returns:
        A sentence; None if all is well.
    """
    for name in PACKAGES:
        place = _place(name)
        if place and not Path(place).resolve().is_relative_to(HERE / name):
            return (
                f"{place} has taken the name {name!r}, which a package of hermes-environments has: it comes first on "
                "sys.path. Rename it, start in another directory (`python -m` puts the current one first), or take "
                "its directory out of PYTHONPATH"
            )
    return None


def _place(name: str) -> str | None:
    """Return the file that is imported for a package, or the directory where that has none."""
    spec = find_spec(name)
    return (spec.origin or next(iter(spec.submodule_search_locations or ()), None)) if spec else None


def check_names() -> None:
    """Raise ImportError if one of our packages would not be imported, before that shows deep inside of another."""
    if problem := name_conflict():
        raise ImportError(problem)
