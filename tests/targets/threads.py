"""The threads of this process, of which some are other tests' clients'."""

from __future__ import annotations

import threading


def running_threads() -> set[threading.Thread]:
    """Return the threads there are, but for those by which a client of a service hangs up when it likes."""
    return {
        thread
        for thread in threading.enumerate()
        if not isinstance(thread, threading.Timer) and not thread.name.startswith("daytona-")
    }
