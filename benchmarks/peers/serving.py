"""A peer's side of the pipe to the driver: a line requests some work, a line returns the seconds.

The module runs in the peer's virtual environment, and imports the standard library alone.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping

Work = Callable[..., object]


def serve(works: Mapping[str, Work]) -> None:
    """Report the kinds of work, and answer requests until end of file.

    A request is `{"work": name, "arguments": {...}}`, an answer `{"seconds": ..., "value": ...}` or `{"error": ...}`.

    Args:
        works: The kinds of work, by name. Only the call is timed.
    """
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # a library's output is no answer
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
