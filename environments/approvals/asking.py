"""Asking hooks, rules and people. Whatever goes wrong on the way is a denial."""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable, Iterable
from typing import TypeVar

from environments.approvals.decision import Allow, Answer, Approver, Ask, Decision, Deny, Request
from environments.cancellation import current_scope
from environments.log import logger
from environments.plain_number import plain_number

log = logger(__name__)

POLL = 0.05
"""Seconds between looks at what may end the wait for an answer."""
MAX_QUESTIONS = 64
"""How many questions may wait for an answer in this process: each has a thread, which nothing can end from outside."""
REFUSED = "it was not approved"

_questions = threading.BoundedSemaphore(MAX_QUESTIONS)
_Request = TypeVar("_Request", bound=Request)


class AskingCancelledError(Exception):
    """Whoever wanted it done no longer waits for it."""


def denial(
    request: _Request,
    hooks: Iterable[Callable[[_Request], Answer]],
    approve: Approver | None,
    timeout: float | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> str | None:
    """Ask all hooks, and return why a request is denied, or None when it may go on.

    A denial by one of them is enough. Nobody is asked for approval of what is denied anyway.

    Args:
        request: What is about to be done.
        hooks: Each returns a decision; what it raises is a denial.
        approve: Answers where a hook says `Ask`; without it, that is a denial.
        timeout: Seconds to wait for that answer; None waits for as long as it takes.
        cancelled: Says that the answer is no longer wanted, beside the `CancelScope` that this thread works in.

    Raises:
        AskingCancelledError: It was cancelled while it waited for an answer.
    """
    questions = []
    for hook in hooks:
        decision = _decided(hook, request)
        if isinstance(decision, Deny):
            return decision.reason
        if isinstance(decision, Ask):
            questions.append(decision.question)
    if not questions:
        return None
    question = "; ".join(dict.fromkeys(questions))
    if approve is None:
        return f"it needs approval ({question}), and there is nobody here to ask"
    return _unapproved(approve, request, question, timeout, cancelled)


def _decided(hook: Callable[[_Request], Answer], request: _Request) -> Decision:
    try:
        return _as_decision(hook(request))
    except Exception as error:  # its message may hold a secret, and the reason goes to a model
        log.exception("a hook failed on a %s, which is denied", type(request).__name__)
        return Deny(f"the hook that decides on it failed ({type(error).__name__})")


def _as_decision(answer: object) -> Decision:
    if answer is None or answer is True:
        return Allow()
    if isinstance(answer, (Allow, Deny, Ask)):
        return answer
    if isinstance(answer, str) and answer:
        return Deny(answer)
    if answer is False:
        return Deny("it is not allowed here")
    return Deny(f"the hook that decides on it answered with a {type(answer).__name__}, which means nothing")


def _unapproved(
    approve: Approver, request: Request, question: str, timeout: float | None, cancelled: Callable[[], bool] | None
) -> str | None:
    """Ask for approval in a thread of its own, so that the wait for it can end before it does."""
    if not _questions.acquire(blocking=False):
        return f"it needs approval ({question}), and {MAX_QUESTIONS} questions wait for an answer already"
    decisions: list[Decision] = []
    answered = threading.Event()

    def ask() -> None:
        try:
            decisions.append(_approval(approve, request, question))
        finally:
            _questions.release()
            answered.set()

    try:
        threading.Thread(
            target=contextvars.copy_context().run, args=(ask,), name="hermes-approval", daemon=True
        ).start()
    except RuntimeError:  # no more threads; nobody was asked
        _questions.release()
        return f"it needs approval ({question}), and there is no thread left to ask in"
    if not _awaited(answered, timeout, cancelled):
        assert timeout is not None  # without one, an answer is waited for
        return f"nobody approved it within {plain_number(timeout)} s ({question})"
    decision = decisions[0] if decisions else Deny(REFUSED)
    return decision.reason if isinstance(decision, Deny) else None


def _approval(approve: Approver, request: Request, question: str) -> Decision:
    try:
        answer = approve(request, question)
    except Exception as error:
        log.exception("approval could not be asked for, which is a denial")
        return Deny(f"it needs approval ({question}), and asking failed ({type(error).__name__})")
    if answer is True or isinstance(answer, Allow):
        return Allow()
    if answer is False or answer is None or isinstance(answer, Ask):
        return Deny(f"{REFUSED} ({question})")
    return _as_decision(answer)


def _awaited(answered: threading.Event, timeout: float | None, cancelled: Callable[[], bool] | None) -> bool:
    """Wait for an event, and return whether it came in time. Nobody waits for it once it was cancelled."""
    scope = current_scope()
    deadline = None if timeout is None else time.monotonic() + timeout
    while True:
        came = answered.wait(POLL)
        if (scope and scope.cancelled) or (cancelled and cancelled()):
            raise AskingCancelledError  # whatever the answer: who asks may have given up for the same reason
        if came:
            return True
        if deadline is not None and time.monotonic() >= deadline:
            return False
