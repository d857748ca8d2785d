"""A peer's side of the line between it and the driver: a line asks for one piece of work, a line says how long it took.

This runs in the peer's own environment, and imports nothing but the standard library.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping

Work = Callable[..., object]


def serve(works: Mapping[str, Work]) -> None:
    """Say what can be asked for, and answer until there are no more questions.

    A question is `{"work": name, "arguments": {...}}`, an answer `{"seconds": ..., "value": ...}` or `{"error": ...}`.

    Args:
        works: What can be asked for, by name. Only the call is timed.
    """
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what a library prints is no answer
    answers.write(json.dumps(list(works)) + "\n")
    for line in sys.stdin:
        question = json.loads(line)
        try:
            work = works[question["work"]]
            began = time.perf_counter()
            value = work(**question["arguments"])
            answer: dict[str, object] = {"seconds": time.perf_counter() - began, "value": value}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
