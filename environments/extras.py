"""Client libraries of pip extras: errors for missing libraries, and lazy imports of classes."""

from __future__ import annotations

import contextlib
import importlib
import re
from collections.abc import Callable
from importlib.util import find_spec

from environments.errors import MissingExtraError

DISTRIBUTION = "hermes-environments"


def missing_library(feature: str, library: str, extra: str) -> MissingExtraError:
    """Return the error for a missing library.

    Args:
        feature: The feature in need of the library; the first words of the message.
        library: The package to import.
        extra: The pip extra that installs the package.
    """
    install = f"pip install '{DISTRIBUTION}[{extra}]', or from a checkout: pip install '.[{extra}]'"
    if place := _found_at(library):
        return MissingExtraError(
            f"{feature} needs the {library} package, but {place} was imported: rename that file if it is unrelated, "
            f"or update the package: {install}"
        )
    # Its own requirement is missing before a library that this would bring.
    missing = next((name for name, version in distributions(extra).items() if version is None), library)
    return MissingExtraError(f"{feature} needs the extra {extra} ({missing} is not installed): {install}")


def require_libraries(feature: str, extra: str, *libraries: str) -> None:
    """Raise MissingExtraError if a library is not installed. Imports none.

    Args:
        feature: The feature in need of the libraries.
        extra: The pip extra that installs them.
        libraries: The packages.
    """
    for library in libraries:
        if find_spec(library) is None:
            raise missing_library(feature, library, extra)


def distributions(extra: str) -> dict[str, str | None]:
    """Return the packages of an extra with their installed versions; empty if this package is not installed."""
    from importlib.metadata import PackageNotFoundError, requires, version

    found: dict[str, str | None] = {}
    with contextlib.suppress(PackageNotFoundError):
        for line in requires(DISTRIBUTION) or []:
            requirement, _, marker = line.partition(";")
            if marker.translate(_BARE).endswith(f"extra=={extra}"):
                name = re.split(r"[^\w.-]", requirement, maxsplit=1)[0]
                found[name] = None
                with contextlib.suppress(PackageNotFoundError):
                    found[name] = version(name)
    return found


_BARE = str.maketrans("", "", " '\"")


def _found_at(library: str) -> str | None:
    """Return the place of another module by the library's name, or of an outdated version; None if there is none."""
    with contextlib.suppress(ImportError, ValueError):
        spec = find_spec(library)
        if spec:
            return spec.origin or ", ".join(spec.submodule_search_locations or ())
    return None


def lazy_export(wing: str, environment: str, extra: str | None = None) -> Callable[[str], object]:
    """Return the `__getattr__` of a backend's package, which imports the environment class lazily.

    Args:
        wing: Name of the package.
        environment: Name of the class in its module `environment`.
        extra: The pip extra of the client library; None without one.
    """

    def import_class(name: str) -> object:
        if name != environment:
            raise AttributeError(f"module {wing!r} has no attribute {name!r}")
        try:
            return getattr(importlib.import_module(f"{wing}.environment"), name)
        except ImportError as error:
            missing = (error.name or "").partition(".")[0]
            if extra is None or missing in ("", wing.partition(".")[0]):
                raise
            raise missing_library(f"backend {extra!r}", missing, extra) from None

    return import_class
