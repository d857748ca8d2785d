"""Becomes a script in the target, as `python3 script.py` does but for where it imports from; on Python 3.8 or later.

A program of its own, started as `python -u start-script SCRIPT WORD MODE ARGUMENTS`. It first says, on standard error,
that it has begun: a byte 30, the word, and ` +`. What cannot say that is no Python that a script could run on.
"""

from __future__ import annotations

import os
import sys

# These are importlib's own classes, and there already; importlib.machinery would first have to be loaded.
from _frozen_importlib_external import PathFinder, SourceFileLoader
from types import ModuleType

TYPE_CHECKING = False  # importing typing would cost a script milliseconds
if TYPE_CHECKING:
    from types import TracebackType

OLDEST = (3, 8)


class ProjectsOwn:
    """Finds a module of the project that has the name of the script, which lies before it on the path."""

    def __init__(self, script: str) -> None:
        self.directory, _, file = script.rpartition("/")
        self.name = file.partition(".")[0]

    def find_spec(self, name: str, path: object = None, target: object = None) -> object:
        """Return where a module is, as finders do; None leaves it to the others."""
        if name != self.name or path is not None:
            return None
        elsewhere = [entry for entry in sys.path if entry != self.directory]
        return PathFinder.find_spec(name, elsewhere)


def set_path(directory: str, mode: str) -> None:
    """Put the session's directory where `python3 -c` has it, behind our own.

    It is put there now and not by PYTHONPATH, for which the interpreter's own imports would look into it too.
    """
    try:
        here = [os.getcwd()]  # noqa: PTH109
    except OSError:  # it is gone
        here = []
    if mode != "project" or getattr(sys.flags, "safe_path", False):
        here = []
    sys.path[:] = [directory, *here, *(entry for entry in sys.path if entry != directory)]


def main_module(script: str) -> ModuleType:
    """Return a new module that is the main one, so that nothing of ours is among its names."""
    import builtins

    module = sys.modules["__main__"] = ModuleType("__main__")
    names = {"__file__": script, "__builtins__": builtins, "__annotations__": {}, "__cached__": None}
    module.__dict__.update(names, __loader__=SourceFileLoader("__main__", script))
    return module


def say_without_own_frames(theirs: TracebackType | None) -> None:
    """Have what ends the interpreter next be shown with these frames alone."""
    hook = sys.excepthook
    sys.excepthook = lambda kind, error, _: hook(kind, error.with_traceback(theirs), theirs)


def run(script: str) -> None:
    """Run it. The frames of this file are not in what is said about an error of the script."""
    names = main_module(script).__dict__
    try:
        with open(script, "rb") as file:
            code = compile(file.read(), script, "exec", dont_inherit=True)
    except Exception as error:
        shown: BaseException = error.with_traceback(None)
    else:
        try:
            exec(code, names)  # noqa: S102
        except SystemExit:
            raise
        except KeyboardInterrupt as error:  # which ends the process by that signal, behind what it says
            say_without_own_frames(error.__traceback__ and error.__traceback__.tb_next)
            raise
        except BaseException as error:
            shown = error.with_traceback(error.__traceback__ and error.__traceback__.tb_next)
        else:
            return
    sys.excepthook(type(shown), shown, shown.__traceback__)
    sys.exit(1)


def main() -> None:
    """Take the arguments, and become the script."""
    if sys.version_info < OLDEST:
        sys.exit("Python {}.{} is too old".format(*sys.version_info))
    script, word, mode = sys.argv[1:4]
    os.write(2, b"\x1e" + word.encode() + b" +\n")
    sys.argv[:] = [script, *sys.argv[4:]]
    set_path(script.rpartition("/")[0], mode)
    sys.meta_path.insert(0, ProjectsOwn(script))  # type: ignore[arg-type]
    run(script)


if __name__ == "__main__":
    this_module = sys.modules["__main__"]  # kept, as the names of a module that nobody has any more are taken away
    main()
