"""A peer for the tests. The driver runs this file in a process of its own."""

from __future__ import annotations

import os
import time

from benchmarks.peers.serving import serve


def work(value: int = 1) -> int:
    print("what a library prints is no answer")
    return value


def fail() -> None:
    raise ValueError("so it is")


if __name__ == "__main__":
    serve(
        {
            "open": lambda: None,
            "work": work,
            "fail": fail,
            "hang": lambda: time.sleep(600),
            "die": lambda: os._exit(1),
            "close": lambda: None,
        }
    )
