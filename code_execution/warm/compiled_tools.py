"""`hermes_tools` compiled before a script imports it: of each, all but its end is the same for the same tools.

To compile it would take a script as long as all else that is done for it.
"""

from __future__ import annotations

import _imp
import os
import stat
import sys
from _frozen_importlib_external import PathFinder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, ModuleType

OWN = b""
"""What stands between what is the same and what is not; set by what puts this program together."""
NAME = "hermes_tools"
_MOST, _LARGEST = 4, 1 << 20
"""How many are kept, and how many bytes one may have."""


class CompiledTools:
    """Those that were compiled, by their text."""

    def __init__(self) -> None:
        self._codes: dict[bytes, CodeType] = {}

    def learn(self, directory: str) -> bool:
        """Compile that of a script, which may be running by now, for later ones, and return whether it is another.

        Args:
            directory: The script's, of which nothing is trusted.
        """
        try:
            same, own, _ = _read(f"{directory}/{NAME}.py").rpartition(OWN)
            if not own or same in self._codes:
                return False
            code = compile(same, f"{NAME}.py", "exec", dont_inherit=True)
        except (OSError, SyntaxError, ValueError, MemoryError, RecursionError):
            return False
        while len(self._codes) >= _MOST:
            del self._codes[next(iter(self._codes))]
        self._codes[same] = code
        return True

    def find_spec(self, name: str, path: object = None, target: object = None) -> object:
        """Return where `hermes_tools` is, as finders do; None leaves any other to them."""
        if name != NAME or path is not None:
            return None
        spec = PathFinder.find_spec(name)
        if spec and spec.origin == f"{sys.path[0]}/{NAME}.py":
            spec.loader = _Compiled(spec.loader, self._codes)  # type: ignore[assignment]
        return spec


class _Compiled:
    """Loads it.

    Args:
        loader: What would load it otherwise.
        codes: What was compiled.
    """

    def __init__(self, loader: object, codes: dict[bytes, CodeType]) -> None:
        self._loader = loader
        self._codes = codes

    def create_module(self, spec: object) -> None:
        """Leave that to the importing."""

    def exec_module(self, module: ModuleType) -> None:
        """Run it, with what was compiled of it, and give it back what tells of how it was loaded."""
        assert module.__spec__ and module.__file__
        module.__loader__ = module.__spec__.loader = self._loader  # type: ignore[assignment]
        source = _read(module.__file__)
        same, _, rest = source.rpartition(OWN)
        code = self._codes.get(same)
        if code is None:
            exec(compile(source, module.__file__, "exec", dont_inherit=True), module.__dict__)  # noqa: S102
            return
        _imp._fix_co_filename(code, module.__file__)  # type: ignore[attr-defined]
        exec(code, module.__dict__)  # noqa: S102
        exec(compile(rest, module.__file__, "exec", dont_inherit=True), module.__dict__)  # noqa: S102


def _read(path: str) -> bytes:
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode) or found.st_size > _LARGEST:
            raise OSError(path)
        return os.read(file, found.st_size)
    finally:
        os.close(file)
