"""Removing a directory, whatever somebody has put into it."""

from __future__ import annotations

import contextlib
import shlex
import subprocess
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

REMOVAL_TIMEOUT = 5.0
"""Seconds for a directory that takes more than Python's own way."""


def removing(path: str) -> str:
    """Return shell text that removes a path of a target with all that is in it, whatever its permissions.

    Args:
        path: The path. Of a symbolic link, what it points to stays as it is.
    """
    word = shlex.quote(path)
    # Somebody may have taken himself the right to look into what he made; of a link, chmod would mean what it leads to.
    return f"rm -rf -- {word} 2>/dev/null || {{ [ -L {word} ] || chmod -R u+rwX -- {word}; rm -rf -- {word}; }}"


def remove_tree(path: Path, timeout: float = REMOVAL_TIMEOUT) -> None:
    """Remove a directory with all that is in it, of any depth and whatever its permissions, as far as we may.

    Args:
        path: The directory. A symbolic link is removed, and what it points to is not.
        timeout: Seconds for one that is deep or locked.
    """
    import shutil  # which brings what packs archives, and most never remove a directory

    # shutil calls itself for each level, and so fails at a depth of some hundreds.
    with contextlib.suppress(OSError, RecursionError):
        shutil.rmtree(path)
    if not path.exists() and not path.is_symlink():
        return
    deadline = time.monotonic() + timeout
    remove = ["rm", "-rf", "--", str(path)]
    for command in (remove, ["chmod", "-R", "u+rwX", "--", str(path)], remove):
        if path.exists():
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                left = max(0.1, deadline - time.monotonic())
                subprocess.run(command, timeout=left, capture_output=True, check=False)
