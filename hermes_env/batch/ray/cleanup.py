"""Removes the orphans of an actor: Ray ends actors by SIGKILL, also after the end of the driver.

A shell of a few hundred kilobytes waits for the end of the actor, and then starts the removal of orphans, as by
`hermes-env gc`. If several actors end together, the first clean-up serves all.
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
"""Seconds for the actor's process to end after its file descriptors were closed."""
_LOCK = "batch-remains.lock"
# The shell must not be a child of the actor: Ray ends an actor's children with the actor. A session of its own (setsid)
# keeps a terminal's signals away.
_WAIT = "exec 3<&0; (trap '' HUP INT TERM; setsid sh -c 'read -r said || exec \"$@\"' sh \"$@\" <&3 3<&- &)"


def schedule_cleanup() -> int:
    """Schedule the removal of this process's orphans after its end, also after SIGKILL.

    Returns:
        A file descriptor for `cancel_cleanup`, not inherited by children. Closing the descriptor starts the removal.
    """
    read_end, write_end = os.pipe()
    try:
        subprocess.run(
            ["sh", "-c", _WAIT, "sh", sys.executable, "-m", __name__, str(Owner.this_process())],
            stdin=read_end,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=True,
        )
    except BaseException:
        os.close(write_end)
        raise
    finally:
        os.close(read_end)
    return write_end


def cancel_cleanup(descriptor: int) -> None:
    """Cancel the removal of `schedule_cleanup`, because this process has removed everything."""
    os.write(descriptor, b"\n")
    os.close(descriptor)


def main() -> None:
    """Remove the orphans of this machine, unless another actor's clean-up has done so since."""
    from environments.inventory import collect_garbage

    ended = time.time()
    owner = Owner.parse(sys.argv[1])
    while owner and not owner.is_gone and time.time() < ended + PATIENCE:
        time.sleep(0.05)  # polled: only the parent is notified of a process's end
    home = hermes_home()
    home.mkdir(parents=True, exist_ok=True)
    path = home / _LOCK
    with path.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if path.stat().st_mtime > ended:
            return  # another clean-up began after the end of our actor
        os.utime(path)
        collect_garbage()


if __name__ == "__main__":
    main()
