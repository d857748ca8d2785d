"""What to say when a library of an extra is missing: a command that brings it, however this package was installed."""

from __future__ import annotations

import contextlib
from importlib.util import find_spec

from environments.errors import MissingExtraError

DISTRIBUTION = "hermes-environments"


def missing_library(who: str, library: str, extra: str) -> MissingExtraError:
    """Return what is raised when a library cannot be imported.

    Args:
        who: What needs it.
        library: The package that was to be imported.
        extra: The pip extra that brings it.
    """
    install = f"pip install '{DISTRIBUTION}[{extra}]'"
    if libraries := _requirements(extra):
        install += f", or from a checkout: pip install {' '.join(libraries)}"
    if place := _found_at(library):
        return MissingExtraError(
            f"{who} needs the {library} package, and {place} is found in its place: rename that if it is another "
            f"thing, or bring the package up to date: {install}"
        )
    return MissingExtraError(f"{who} needs the {library} package: {install}")


def _requirements(extra: str) -> list[str]:
    """Return what the extra brings, quoted for a shell; nothing where this package was not installed."""
    from importlib.metadata import PackageNotFoundError, requires

    try:
        lines = requires(DISTRIBUTION) or []
    except PackageNotFoundError:
        return []
    split = (line.partition(";") for line in lines)
    return [f"'{what.strip()}'" for what, _, marker in split if marker.translate(_BARE).endswith(f"extra=={extra}")]


_BARE = str.maketrans("", "", " '\"")


def _found_at(library: str) -> str | None:
    """Return where something of a name is that is not the library, or not as it is needed."""
    with contextlib.suppress(ImportError, ValueError):
        spec = find_spec(library)
        if spec:
            return spec.origin or ", ".join(spec.submodule_search_locations or ())
    return None
