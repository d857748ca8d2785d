"""Modules that are loaded before a script wants them, and of which it sees nothing until it imports them.

They are taken out of `sys.modules` again. What a script imports is looked for on its own path as always, and only if
the file that is found is the one that was loaded does it get the module that is there.
"""

from __future__ import annotations

import sys
from _frozen_importlib_external import PathFinder
from types import ModuleType

THERE = frozenset(sys.modules)
"""The modules of a Python that has just begun a script."""
WANTED = ("json", "shlex", "socket", "threading")
"""What a script that calls tools imports, as it imports `hermes_tools`."""


_BUILT_IN = ("built-in", "frozen")


class Ready:
    """Finds the modules that were loaded since. Those that are part of the interpreter stay among all others."""

    def __init__(self) -> None:
        loaded = {name: module for name, module in sys.modules.items() if name not in THERE}
        self._modules = {name: module for name, module in loaded.items() if _origin(module) not in _BUILT_IN}

    def hide(self, *others: object) -> None:
        """Take them out of those that are there, and stand where modules are looked for in files.

        Args:
            others: Finders that stand there, too.
        """
        for name in self._modules:
            sys.modules.pop(name, None)
        files = sys.meta_path.index(PathFinder) if PathFinder in sys.meta_path else len(sys.meta_path)
        sys.meta_path[files:files] = (self, *others)  # type: ignore[arg-type]

    def find_spec(self, name: str, path: object = None, target: object = None) -> object:
        """Return where a module is, as finders do; None leaves it to the others."""
        module = self._modules.get(name)
        if module is None:
            return None
        spec = PathFinder.find_spec(name, path)  # type: ignore[arg-type]
        if spec is None or spec.origin is None or spec.origin != _origin(module):
            return spec
        # What it has put there beside itself, such as its own parts.
        parts = {other: each for other, each in self._modules.items() if other.startswith(name + ".")}
        spec.loader = Loaded(module, parts)  # type: ignore[assignment]
        return spec


class Loaded:
    """Loads a module that was loaded already.

    Args:
        module: The module.
        parts: Those that it has loaded below itself.
    """

    def __init__(self, module: ModuleType, parts: dict[str, ModuleType]) -> None:
        self._module = module
        self._spec = module.__spec__
        self._parts = parts

    def create_module(self, spec: object) -> ModuleType:
        """Return it."""
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        """Do no more than to give it back what tells of how it was loaded."""
        module.__spec__ = self._spec
        for name, part in self._parts.items():
            sys.modules.setdefault(name, part)


def _origin(module: ModuleType) -> object:
    return getattr(getattr(module, "__spec__", None), "origin", None)


def forget_directories(library: str) -> None:
    """Have directories looked into anew, but for those of the standard library, of which the times are compared."""
    for path in [path for path in sys.path_importer_cache if not path.startswith(library)]:
        del sys.path_importer_cache[path]
