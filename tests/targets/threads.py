"""The threads of this process."""

from __future__ import annotations

import threading

from environments.loop import WorkerThread

OF_EVERY_PROCESS = ("daytona-", "hermes-loop")
"""Name prefixes of threads that outlive an environment: clients of a service close at their own time, and the loop is
shared by all environments. Idle worker threads stay as well."""


def running_threads() -> set[threading.Thread]:
    """Return the threads, except those independent of environments."""
    return {
        thread
        for thread in threading.enumerate()
        if not isinstance(thread, threading.Timer)
        and not thread.name.startswith(OF_EVERY_PROCESS)
        and not (isinstance(thread, WorkerThread) and thread.is_idle)
    }
