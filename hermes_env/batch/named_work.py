"""Python code that works on tasks, by its name: what `hermes-env batch --work` is given."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from environments.errors import SettingsError
from environments.validation import closest
from hermes_env.batch.arguments import checked_work

if TYPE_CHECKING:
    from types import ModuleType

    from hermes_env.batch.engine import Work


def work_named(name: str) -> Work:
    """Return the function of a name, as `run_batch` takes it.

    The module is imported, from the current directory too. What is installed goes before that, so that no file there
    takes the place of a library.

    Args:
        name: `module:function`.

    Raises:
        SettingsError: There is no such function, its module cannot be imported, or it is not called as
            `work(env, task)`.
    """
    module_name, _, function = name.partition(":")
    if not all(part.isidentifier() for part in (*module_name.split("."), *function.split("."))):
        raise SettingsError(f"--work {name}: give module:function, such as rollouts:work for that in rollouts.py here")
    module = _imported(name, module_name)
    work: object = module
    for part in function.split("."):
        if not hasattr(work, part):
            found = [each for each in vars(module) if callable(getattr(module, each))]
            raise SettingsError(
                f"--work {name}: {module_name} has no {function}{closest(function, found)}; it is {_place(module)}"
            )
        work = getattr(work, part)
    try:
        return checked_work(work)
    except TypeError as error:
        raise SettingsError(f"--work {name}: {error}") from None


def _imported(name: str, module: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    try:
        return importlib.import_module(module)
    except (Exception, SystemExit) as error:  # whatever somebody's module raises
        said = f"{type(error).__name__}: {error}"
        raise SettingsError(f"--work {name}: {module} cannot be imported: {said}") from error


def _place(module: ModuleType) -> str:
    return getattr(module, "__file__", None) or "no file"
