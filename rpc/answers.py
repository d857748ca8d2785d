"""The answers of a script's calls, and how long they are kept: no longer than the same request can come again."""

from __future__ import annotations

import threading
from collections import OrderedDict

KEPT_BYTES = 1024 * 1024
"""How much of answers that were given is kept, for requests that come again; the oldest go first."""
WAIT_POLL = 1.0
"""Seconds between looks at whether anybody is still to be told, while an answer is waited for."""


class Answer:
    """Where the answer to one request will be."""

    def __init__(self) -> None:
        self._missing = threading.Lock()  # held until it is there; an Event would cost a call twice as much
        self._missing.acquire()
        self._line: bytes | None = None

    def give(self, line: bytes) -> None:
        """Let everybody have it who waits for it. It is given once."""
        self._line = line
        self._missing.release()

    def forget(self) -> None:
        """Free what it takes. Whoever asks from now on is told that it is gone."""
        self._line = None

    @property
    def size(self) -> int:
        """Its bytes, as far as it is there."""
        return len(self._line or b"")

    def wait(self, ended: threading.Event) -> bytes | None:
        """Wait until it is there, and return it; None if it is not kept any more, or will not come."""
        while not self._missing.acquire(timeout=WAIT_POLL):
            if ended.is_set():
                return self._line
        self._missing.release()
        return self._line


class Answers:
    """What was answered, by request. Used under its owner's lock.

    Every request is remembered, so that none runs twice, and of the answers as many as fit.
    """

    def __init__(self) -> None:
        self._by_id: dict[str, Answer] = {}
        self._kept: OrderedDict[str, Answer] = OrderedDict()
        self._kept_bytes = 0

    def __len__(self) -> int:
        return len(self._by_id)

    def get(self, identity: str) -> Answer | None:
        """Return the answer of a request that was seen before."""
        return self._by_id.get(identity)

    def begin(self, identity: str) -> Answer:
        """Note a new request."""
        answer = self._by_id[identity] = Answer()
        return answer

    def given(self, identity: str) -> None:
        """Note that a request has been answered, and let go of what is too much to keep."""
        answer = self._by_id[identity]
        self._kept[identity] = answer
        self._kept_bytes += answer.size
        while self._kept_bytes > KEPT_BYTES:
            _, oldest = self._kept.popitem(last=False)
            self._kept_bytes -= oldest.size
            oldest.forget()
