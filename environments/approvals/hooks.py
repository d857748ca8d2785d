"""Requests for approval, decisions of hooks, and the calls of hooks, rules and `approve`.

Approvals fail closed: each failure is a denial.
"""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from environments.cancellation import current_scope
from environments.log import logger
from environments.plain_number import plain_number

log = logger(__name__)

POLL = 0.05
"""Seconds between checks for cancellation while an answer is awaited."""
MAX_QUESTIONS = 64
"""Limit of unanswered questions in this process. Each has a thread, which cannot be ended from outside."""
REFUSED = "it was not approved"

Way = Literal["session", "oneshot", "background"]


@dataclass(frozen=True, slots=True)
class CommandRequest:
    """A command about to run."""

    command: str
    """The shell text."""
    cwd: str | None
    """The working directory; None for that of a session whose directory is not known yet."""
    backend: str
    task_id: str
    way: Way
    """`session` for `execute`, `oneshot` for `execute_oneshot`, `background` for `start`."""
    user: str | None = None
    """The user to run as, a name or a number; None for the default user of the target."""


@dataclass(frozen=True, slots=True)
class ScriptRequest:
    """A Python script about to run. Each of its tool calls is a request of its own."""

    code: str
    mode: str
    """`project` or `strict`, see `execute_code`."""
    backend: str
    task_id: str


@dataclass(frozen=True, slots=True)
class ToolCallRequest:
    """A tool call of a script."""

    tool: str
    arguments: Mapping[str, object] = field(repr=False)
    """The arguments by the names of the tool's parameters, however the script passed them."""
    backend: str
    task_id: str


Request = CommandRequest | ScriptRequest | ToolCallRequest


@dataclass(frozen=True, slots=True)
class Allow:
    """Allow the request. Another hook or rule may still deny it."""


@dataclass(frozen=True, slots=True)
class Deny:
    """Deny the request."""

    reason: str
    """The reason for the caller, which is often a model."""


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask `approve`; without `approve`, the request is denied."""

    question: str
    """The question for `approve`."""


Decision = Allow | Deny | Ask
Answer = Decision | bool | str | None
"""The return value of a hook. None and True allow, False denies, a text denies and is the reason."""

CommandHook = Callable[[CommandRequest], Answer]
ScriptHook = Callable[[ScriptRequest], Answer]
ToolCallHook = Callable[[ToolCallRequest], Answer]
Approver = Callable[[Request, str], Answer]
"""Takes the request and the question. The answers are those of a hook, but None and `Ask` deny."""

_questions = threading.BoundedSemaphore(MAX_QUESTIONS)
_Request = TypeVar("_Request", bound=Request)


class ApprovalCancelledError(Exception):
    """The request was cancelled while its answer was awaited."""


def denial(
    request: _Request,
    hooks: Iterable[Callable[[_Request], Answer]],
    approve: Approver | None,
    timeout: float | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> str | None:
    """Call all hooks, and return the reason for a denial; None to allow the request.

    The first denial ends the calls. `approve` is called only if no hook denies.

    Args:
        request: The command, script or tool call.
        hooks: Each returns a decision. An exception is a denial.
        approve: Answers the question of an `Ask`; None makes an `Ask` a denial.
        timeout: Seconds to wait for the answer; None waits without limit.
        cancelled: Returns True once the request is cancelled; the `CancelScope` of this thread counts too.

    Raises:
        ApprovalCancelledError: The request was cancelled while the answer was awaited.
    """
    questions = []
    for hook in hooks:
        decision = _decision_of(hook, request)
        if isinstance(decision, Deny):
            return decision.reason
        if isinstance(decision, Ask):
            questions.append(decision.question)
    if not questions:
        return None
    question = "; ".join(dict.fromkeys(questions))
    if approve is None:
        return f"it needs approval ({question}), and no `approve` is set to answer"
    return _ask(approve, request, question, timeout, cancelled)


def _decision_of(hook: Callable[[_Request], Answer], request: _Request) -> Decision:
    try:
        return _as_decision(hook(request))
    except Exception as error:  # its message may hold a secret, and the reason goes to a model
        log.exception("a hook failed on a %s, which is denied", type(request).__name__)
        return Deny(f"the hook failed ({type(error).__name__})")


def _as_decision(answer: object) -> Decision:
    if answer is None or answer is True:
        return Allow()
    if isinstance(answer, (Allow, Deny, Ask)):
        return answer
    if isinstance(answer, str) and answer:
        return Deny(answer)
    if answer is False:
        return Deny("it is not allowed here")
    return Deny(f"the hook returned a {type(answer).__name__}, which is no decision")


def _ask(
    approve: Approver, request: Request, question: str, timeout: float | None, cancelled: Callable[[], bool] | None
) -> str | None:
    """Call `approve` in a thread of its own, as a time-out or cancellation must end the wait."""
    if not _questions.acquire(blocking=False):
        return f"it needs approval ({question}), and {MAX_QUESTIONS} questions wait for an answer already"
    decisions: list[Decision] = []
    answered = threading.Event()

    def ask() -> None:
        try:
            decisions.append(_call_approve(approve, request, question))
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
    if not _wait_for(answered, timeout, cancelled):
        assert timeout is not None  # without a time-out the wait has no end
        return f"it was not approved within {plain_number(timeout)} s ({question})"
    decision = decisions[0] if decisions else Deny(REFUSED)
    return decision.reason if isinstance(decision, Deny) else None


def _call_approve(approve: Approver, request: Request, question: str) -> Decision:
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


def _wait_for(answered: threading.Event, timeout: float | None, cancelled: Callable[[], bool] | None) -> bool:
    """Wait for an answer, and return False after the time-out. Raises ApprovalCancelledError on cancellation."""
    scope = current_scope()
    deadline = None if timeout is None else time.monotonic() + timeout
    while True:
        is_answered = answered.wait(POLL)
        if (scope and scope.cancelled) or (cancelled and cancelled()):
            raise ApprovalCancelledError  # even with an answer, which the cancellation may have caused
        if is_answered:
            return True
        if deadline is not None and time.monotonic() >= deadline:
            return False
