"""The libraries that the web tools need and the package does not."""

from __future__ import annotations

from importlib.util import find_spec

from environments.extras import missing_library


def require_extra(tool: str, *modules: str) -> None:
    """Do nothing if all of some modules are installed.

    Args:
        tool: Who needs them.
        modules: Their names.

    Raises:
        MissingExtraError: One is not. It names the extra that brings it.
    """
    for module in modules:
        if find_spec(module) is None:
            raise missing_library(tool, module, "web")
