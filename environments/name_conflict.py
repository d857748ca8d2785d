"""Check that no module of the user shadows our packages.

Run by path, as `environments` may be the shadowed name: imports no package of ours.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

PACKAGES = ("environments", "rpc", "hermes_tools", "code_execution")
HERE = Path(__file__).resolve().parents[1]


def shadowed_package() -> str | None:
    """Return the first of our packages shadowed by another module, with the remedy.

    Returns:
        A sentence; None without a conflict.
    """
    for name in PACKAGES:
        place = _place(name)
        if place and not Path(place).resolve().is_relative_to(HERE / name):
            return (
                f"{place} has taken the name {name!r} of a package of hermes-environments, and comes first on "
                "sys.path. Rename it, start in another directory (`python -m` puts the current one first), or take "
                "its directory out of PYTHONPATH"
            )
    return None


def _place(name: str) -> str | None:
    """Return the file of a package to import, or the directory of a namespace package."""
    spec = find_spec(name)
    return (spec.origin or next(iter(spec.submodule_search_locations or ()), None)) if spec else None


def check_names() -> None:
    """Raise ImportError if a package of ours is shadowed, before a confusing error deep inside of another package."""
    if problem := shadowed_package():
        raise ImportError(problem)
