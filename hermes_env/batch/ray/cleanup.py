"""Removal of what an actor leaves: Ray ends actors by SIGKILL, also after the end of the driver.

A shell of a few hundred kilobytes waits for the end of the actor, and then has its orphans removed, as `hermes-env gc`
does. Of actors that end together, the first does it for all.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time

from environments.owner import Owner
from environments.settings import hermes_home

PATIENCE = 10.0
"""Seconds until a process that has closed its descriptors has ended."""
_LOCK = "batch-remains.lock"
# Ray ends an actor's children with it, so that it must be none; one of its session could get a terminal's signals.
_WAIT = "exec 3<&0; (trap '' HUP INT TERM; setsid sh -c 'read -r said || exec \"$@\"' sh \"$@\" <&3 3<&- &)"


def removed_with_this_process() -> int:
    """Have what this process leaves in targets removed after its end, also after SIGKILL.

    Returns:
        A descriptor for `nothing_remains`. Closing it has the same effect. It is not inherited.
    """
    ours, its = os.pipe()
    try:
        subprocess.run(
            ["sh", "-c", _WAIT, "sh", sys.executable, "-m", __name__, str(Owner.this_process())],
            stdin=ours,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=True,
        )
    except BaseException:
        os.close(its)
        raise
    finally:
        os.close(ours)
    return its


def nothing_remains(descriptor: int) -> None:
    """End the wait of `removed_with_this_process`, as everything was removed."""
    os.write(descriptor, b"\n")
    os.close(descriptor)


def main() -> None:
    """Remove what ended processes of this machine have left, unless another actor's cleanup has done so since."""
    from environments.inventory import collect_garbage

    ended = time.time()
    owner = Owner.parse(sys.argv[1])
    while owner and not owner.is_gone and time.time() < ended + PATIENCE:
        time.sleep(0.05)  # only its parent is notified
    home = hermes_home()
    home.mkdir(parents=True, exist_ok=True)
    path = home / _LOCK
    with path.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if path.stat().st_mtime > ended:
            return  # another began to look behind our actor's end
        os.utime(path)
        collect_garbage()


if __name__ == "__main__":
    main()
