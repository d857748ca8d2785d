"""The variables of what runs in a sandbox."""

from __future__ import annotations

import os
import sys
from pathlib import Path

HARMLESS = (
    "LANG", "LANGUAGE", "LC_ALL", "LC_COLLATE", "LC_CTYPE", "LC_MESSAGES", "LC_MONETARY", "LC_NUMERIC", "LC_TIME",
    "TERM", "COLORTERM", "NO_COLOR", "TZ", "USER", "LOGNAME", "SHELL", "EDITOR", "PAGER", "LD_LIBRARY_PATH",
    "VIRTUAL_ENV", "CONDA_PREFIX", "PYENV_ROOT", "PYENV_VERSION", "JAVA_HOME",
)  # fmt: skip
"""What is handed in of this process's variables. No name is taken by its beginning, and none that leads to a socket."""


def search_path() -> list[str]:
    """Return the directories of PATH, and behind them that of the Python that runs us: there may be no other."""
    ours = [str(Path(sys.executable).parent)] if sys.executable else []
    return [*os.environ.get("PATH", os.defpath).split(os.pathsep), *ours]


def handed_in(home: Path) -> dict[str, str]:
    """Return the variables.

    Args:
        home: The home directory within.
    """
    here = {name: os.environ[name] for name in HARMLESS if name in os.environ}
    return {"PATH": os.pathsep.join(search_path()), "HOME": str(home), **here}
