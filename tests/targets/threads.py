"""The threads of this process, of which some are other tests' clients'."""

from __future__ import annotations

import threading

from environments.loop import WorkerThread

OF_EVERY_PROCESS = ("daytona-", "hermes-loop")
"""How the names begin of threads that outlive an environment: the clients of a service hang up when they like, and our
own loop is there for all environments of a process. So are worker threads that are idle."""


def running_threads() -> set[threading.Thread]:
    """Return the threads there are, but for those that belong to no environment."""
    return {
        thread
        for thread in threading.enumerate()
        if not isinstance(thread, threading.Timer)
        and not thread.name.startswith(OF_EVERY_PROCESS)
        and not (isinstance(thread, WorkerThread) and thread.is_idle)
    }
