"""Calling hooks, rules and `approve`. Every failure on the way is a denial."""

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
"""Seconds between checks for cancellation while an answer is awaited."""
MAX_QUESTIONS = 64
"""Limit of unanswered questions in this process. Each has a thread, which cannot be ended from outside."""
REFUSED = "it was not approved"

_questions = threading.BoundedSemaphore(MAX_QUESTIONS)
_Request = TypeVar("_Request", bound=Request)


class AskingCancelledError(Exception):
    """The request was cancelled while its answer was awaited."""


def denial(
    request: _Request,
    hooks: Iterable[Callable[[_Request], Answer]],
    approve: Approver | None,
    timeout: float | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> str | None:
    """Call all hooks, and return the reason why a request is denied; None if it is allowed.

    One denial is enough. `approve` is called only if no hook denies.

    Args:
        request: The command, script or tool call.
        hooks: Each returns a decision. An exception is a denial.
        approve: Answers the question of an `Ask`; without it, an `Ask` is a denial.
        timeout: Seconds to wait for that answer; None waits without limit.
        cancelled: Returns True once the request is cancelled; the `CancelScope` of this thread counts too.

    Raises:
        AskingCancelledError: The request was cancelled while the answer was awaited.
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
        return f"it needs approval ({question}), and no `approve` is set to answer"
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
    """Call `approve` in a thread of its own, so that a time-out or cancellation ends the wait for it."""
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
    except RuntimeError:  # no more threads; `approve` was not called
        _questions.release()
        return f"it needs approval ({question}), and there is no thread left to ask in"
    if not _awaited(answered, timeout, cancelled):
        assert timeout is not None  # without one, an answer is waited for
        return f"it was not approved within {plain_number(timeout)} s ({question})"
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
    """Wait for an event, and return True if it came in time. Raises AskingCancelledError once it is cancelled."""
    scope = current_scope()
    deadline = None if timeout is None else time.monotonic() + timeout
    while True:
        came = answered.wait(POLL)
        if (scope and scope.cancelled) or (cancelled and cancelled()):
            raise AskingCancelledError  # even with an answer, which the cancellation may have caused
        if came:
            return True
        if deadline is not None and time.monotonic() >= deadline:
            return False
