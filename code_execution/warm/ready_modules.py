"""Modules that are loaded before a script wants them, and of which it sees nothing until it imports them.

They are taken out of `sys.modules` again. What a script imports is looked for on its own path as always, and only if
the file that is found is the one that was loaded does it get the module that is there, with those that this has
imported, and each only once. Where one of them would be another if it were loaded now, all are loaded anew.
"""

from __future__ import annotations

import os
import sys
from _frozen_importlib_external import PathFinder
from types import ModuleType

THERE = frozenset(sys.modules)
"""The modules of a Python that has just begun a script."""
WANTED = ("json", "shlex", "socket", "threading")
"""What a script that calls tools imports, as it imports `hermes_tools`."""


_BUILT_IN = ("built-in", "frozen")


class Ready:
    """Finds the modules that were loaded since. Those that are part of the interpreter stay among all others.

    Args:
        library: The directory of the standard library.
    """

    def __init__(self, library: str) -> None:
        self._library = library
        loaded = {name: module for name, module in sys.modules.items() if name not in THERE}
        self._modules = {name: module for name, module in loaded.items() if _origin(module) not in _BUILT_IN}
        self._roots = {name.partition(".")[0] for name in self._modules}
        self._left = set(self._modules)
        imported = {name: _imported(name, self._modules) for name in self._modules}
        self._used = {name: _all_imported(name, imported) for name in self._modules}
        self._hiding: dict[str, tuple[int, bool]] = {}

    def hide(self, *others: object) -> None:
        """Take them out of those that are there, and stand where modules are looked for in files.

        Args:
            others: Finders that stand there, too.
        """
        for name in self._modules:
            sys.modules.pop(name, None)
        files = sys.meta_path.index(PathFinder) if PathFinder in sys.meta_path else len(sys.meta_path)
        sys.meta_path[files:files] = (self, *others)  # type: ignore[arg-type]
        if threading := self._modules.get("threading"):
            threading.main_thread()._set_native_id()  # a fork's thread has its parent's

    def find_spec(self, name: str, path: object = None, target: object = None) -> object:
        """Return where a module is, as finders do; None leaves it to the others."""
        if name not in self._left:
            return None
        spec = PathFinder.find_spec(name, path)  # type: ignore[arg-type]
        if spec is None or spec.origin is None or spec.origin != _origin(self._modules[name]):
            return spec
        if self._are_hidden():
            self._left.clear()
        elif all(map(self._would_be_used, self._used[name])):
            spec.loader = Loaded(name, spec.loader, self)  # type: ignore[assignment]
        return spec

    def _would_be_used(self, name: str) -> bool:
        """Return whether what imports a module now would get the one of here."""
        there = sys.modules.get(name)
        return there is self._modules[name] or (there is None and name in self._left and name not in sys.modules)

    def _are_hidden(self) -> bool:
        """Return whether something that lies before the library may have the name of one of them."""
        for entry in sys.path:
            if entry == self._library:
                break
            try:
                changed = os.stat(entry or ".").st_mtime_ns  # noqa: PTH116
                if self._hiding.get(entry, (0, False))[0] != changed:
                    names = os.listdir(entry or ".")  # noqa: PTH208
                    self._hiding[entry] = (changed, any(each.partition(".")[0] in self._roots for each in names))
            except NotADirectoryError:  # an archive
                return True
            except (OSError, TypeError, ValueError):  # there is none
                continue
            if self._hiding[entry][1]:
                return True
        return False

    def hand_out(self, name: str) -> ModuleType | None:
        """Return a module, if it still is to be had, and have it loaded from its file from now on."""
        if name not in self._left:
            return None
        self._left.discard(name)
        return self._modules[name]

    def hand_out_used(self, name: str) -> None:
        """Put there what a module has imported."""
        for other in self._used[name]:
            if module := self.hand_out(other):
                sys.modules.setdefault(other, module)


class Loaded:
    """Loads a module that was loaded already.

    Args:
        name: Its name.
        loader: What loads it otherwise, and again.
        ready: Where it is to be had.
    """

    def __init__(self, name: str, loader: object, ready: Ready) -> None:
        self._name = name
        self._loader = loader
        self._ready = ready
        self._module: ModuleType | None = None
        self._spec: object = None

    def __getattr__(self, name: str) -> object:
        """Return what is asked of it besides."""
        return getattr(self._loader, name)

    def create_module(self, spec: object) -> ModuleType | None:
        """Return it."""
        self._module = self._ready.hand_out(self._name)
        self._spec = getattr(self._module, "__spec__", None)
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        """Do no more than to give it back what tells of how it was loaded, the first time."""
        given, self._module = self._module, None
        if given is not module:
            self._loader.exec_module(module)  # type: ignore[attr-defined]
            return
        module.__spec__ = self._spec  # type: ignore[assignment]
        self._ready.hand_out_used(self._name)


def _imported(name: str, modules: dict[str, ModuleType]) -> set[str]:
    """Return the names of those modules that one of them has imported itself, as far as it shows in its own names."""
    found: set[object] = set()
    for value in vars(modules[name]).values():
        home = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
        found.add(home)
        if isinstance(home, str):
            found.add(home.lstrip("_"))  # what is written in C is mostly passed on by a module
    return {other for other in modules if other in found} - {name.lstrip("_")}


def _all_imported(name: str, imported: dict[str, set[str]]) -> list[str]:
    """Return those that it has imported through others, too."""
    known, new = {name}, [name]
    while new:
        more = imported[new.pop()] - known
        known |= more
        new += more
    return sorted(known - {name})


def _origin(module: ModuleType) -> object:
    return getattr(getattr(module, "__spec__", None), "origin", None)


def forget_directories(library: str) -> None:
    """Have directories looked into anew, but for those of the standard library, of which the times are compared."""
    for path in [path for path in sys.path_importer_cache if not path.startswith(library)]:
        del sys.path_importer_cache[path]
