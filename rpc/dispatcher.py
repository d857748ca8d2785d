"""The dispatcher: checks a script's requests, runs their handlers, and runs each request at most once."""

from __future__ import annotations

import hmac
import inspect
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextvars import copy_context
from functools import partial
from typing import cast

from environments.cancellation import CancelScope
from environments.errors import DeniedError
from environments.observation.events import Operation, status_of
from environments.observation.observed import observed
from rpc.event_loop import EventLoopThread
from rpc.messages import MAX_MESSAGE_BYTES, JsonValue, MessageError, Request, Response, request_prefix
from rpc.signatures import ToolSignature
from rpc.tool_calls import ToolCallLog

KEPT_BYTES = 1024 * 1024
"""Bytes of sent answers that are kept for repeated requests; the oldest are discarded first."""
WAIT_POLL = 1.0
"""Seconds between two checks for the dispatcher's end while waiting for an answer."""
MAX_ERROR_CHARACTERS = 10_000
"""Limit for the text of an error; an exception's message may hold a whole file."""
FREE_REFUSALS = 100
"""Refusals without a pause. A script that goes on is answered more slowly, and so takes no time from others."""
REFUSAL_PAUSE = 0.05
"""Seconds before each further refusal."""
CLOSE_GRACE_SECONDS = 2.0
"""Seconds in which cancelled awaitables may end."""
REFUSED_BYTES_PER_SECOND = 8_000_000
"""Rate at which refused bytes are accepted, because carrying and reading them costs time."""
_WRONG_TOKEN = "the token is wrong: only the script it was made for may call tools"  # noqa: S105 - no secret


class Answer:
    """The answer to a request, once the handler has returned."""

    def __init__(self) -> None:
        self._missing = threading.Lock()  # held until stored; an Event would double a call's time
        self._missing.acquire()
        self._line: bytes | None = None

    def store(self, line: bytes) -> None:
        """Store the answer and wake all waiting threads. Called once."""
        self._line = line
        self._missing.release()

    def discard(self) -> None:
        """Free the memory; from now on `wait` returns None."""
        self._line = None

    @property
    def size(self) -> int:
        """Size in bytes; 0 without an answer."""
        return len(self._line or b"")

    def wait(self, ended: threading.Event) -> bytes | None:
        """Wait for the answer; None if the answer was discarded, or if the dispatcher ended first."""
        while not self._missing.acquire(timeout=WAIT_POLL):
            if ended.is_set():
                return self._line
        self._missing.release()
        return self._line


class Answers:
    """All answers by request id. Used under the owner's lock.

    Every id is remembered: no request runs twice. Answers are kept up to `KEPT_BYTES`.
    """

    def __init__(self) -> None:
        self._by_id: dict[str, Answer] = {}
        self._kept: OrderedDict[str, Answer] = OrderedDict()
        self._kept_bytes = 0

    def __len__(self) -> int:
        return len(self._by_id)

    def get(self, identity: str) -> Answer | None:
        """Return the answer of a known request, or None."""
        return self._by_id.get(identity)

    def begin(self, identity: str) -> Answer:
        """Add a new request and return an empty answer."""
        answer = self._by_id[identity] = Answer()
        return answer

    def retain(self, identity: str) -> None:
        """Keep a stored answer for repeats, and discard the oldest ones beyond `KEPT_BYTES`."""
        answer = self._by_id[identity]
        self._kept[identity] = answer
        self._kept_bytes += answer.size
        while self._kept_bytes > KEPT_BYTES:
            _, oldest = self._kept.popitem(last=False)
            self._kept_bytes -= oldest.size
            oldest.discard()


Handlers = Mapping[str, Callable[..., object]]
BeforeCall = Callable[[str, Mapping[str, object]], object]


class _RefusedError(Exception):
    """The request is refused; the text is for the script's author."""


class Dispatcher:
    """Runs the handlers named in a script's requests, each in the thread of the `dispatch` call.

    Handlers run side by side; no lock is held meanwhile. Awaitables that handlers return run on one event loop. All
    work runs in one `CancelScope`, so that closing the dispatcher ends the commands that handlers started.
    """

    def __init__(
        self,
        handlers: Handlers,
        *,
        token: str,
        max_calls: int = 50,
        before_call: BeforeCall | None = None,
        log: ToolCallLog | None = None,
    ) -> None:
        """Create a dispatcher for a script.

        Args:
            handlers: Tool name to function; no other function can be called.
            token: Secret carried by each request.
            max_calls: Limit of accepted calls; as many requests are remembered.
            before_call: Called before each call, in the same thread, with the tool's name and the arguments by name. An
                exception prevents the call and becomes the answer.
            log: Records each accepted call.

        Raises:
            ValueError: The token is empty.
        """
        if not token:
            raise ValueError("the token is empty: any request would be accepted")
        self.token = token
        self._handlers = dict(handlers)
        self._signatures = {name: ToolSignature.of(handler) for name, handler in self._handlers.items()}
        self.prefix = request_prefix(token)
        """First bytes of every valid request. A line with other first bytes is refused unread."""
        self._max_calls = max_calls
        self._before_call = before_call
        self._log = log or ToolCallLog()
        self._answers = Answers()
        self._lock = threading.Lock()
        self.scope = CancelScope(is_trusted=False)
        """Scope of all work that handlers do."""
        self._context = copy_context()  # tools see the context variables of the caller of execute_code
        self._event_loop = EventLoopThread()
        self._refusals = self._refused_bytes = self._over_limit = 0
        self._ended = threading.Event()

    @property
    def limit_reached(self) -> str | None:
        """Sentence about the limit of calls, once a call was refused; else None."""
        if not self._over_limit:
            return None
        calls = "1 tool call was" if self._over_limit == 1 else f"{self._over_limit} tool calls were"
        return f"The limit of {self._max_calls} tool calls (max_tool_calls) was reached: {calls} refused."

    @property
    def calls_made(self) -> int:
        """Number of accepted calls, including failed ones."""
        return len(self._answers)

    def dispatch(self, line: bytes) -> bytes:
        """Run a request and return the answer as a line.

        A refused request is answered with an error; a failed tool has a result, `{"error": ...}`. A request with a
        known id does not run again: it waits for the first answer and returns that one. Nothing is raised, whatever the
        line contains.
        """
        if not hmac.compare_digest(line[: len(self.prefix)], self.prefix):
            return self.refusal(len(line))
        try:
            request = Request.decode(line)
            answer, is_new = self._accept(request)
        except MessageError as error:
            return self._refusal(Response("", error=f"the request was not understood: {error}"), len(line))
        except _RefusedError as refusal:
            return self._refusal(_error_response(request, str(refusal)), len(line))
        if not is_new:
            return answer.wait(self._ended) or _error_response(request, "it ran, and its answer is gone").encode()
        number = self._log.started(request.tool)
        encoded = self._context.copy().run(self._run_logged, request, number)
        answer.store(encoded)
        with self._lock:
            self._answers.retain(request.id)
        return encoded

    def _run_logged(self, request: Request, number: int) -> bytes:
        """Run a call and log the result."""
        encoded, problem = self._run(request)
        self._log.ended(number, problem)
        return encoded

    def refusal(self, size: int) -> bytes:
        """Return the answer to a line of `size` bytes without the token."""
        return self._refusal(Response("", error=_WRONG_TOKEN), size)

    def close(self) -> None:
        """End the commands of running handlers, cancel awaitables, and refuse later requests."""
        self._ended.set()
        self._event_loop.close()
        self.scope.cancel()

    @property
    def is_awaiting(self) -> bool:
        """True if the event loop was started, so that `join` may wait."""
        return self._event_loop.is_started

    def join(self, timeout: float = CLOSE_GRACE_SECONDS) -> None:
        """Wait at most `timeout` seconds for cancelled awaitables to end. Call `close` first."""
        self._event_loop.join(timeout)

    def _refusal(self, response: Response, size: int) -> bytes:
        self._refusals += 1
        self._refused_bytes += size
        pause = REFUSAL_PAUSE if self._refusals > FREE_REFUSALS else 0.0
        if self._refused_bytes > MAX_MESSAGE_BYTES:  # a single message that is too large may be a mistake
            pause += size / REFUSED_BYTES_PER_SECOND
        if pause:
            self._ended.wait(pause)
        return response.encode()

    def _accept(self, request: Request) -> tuple[Answer, bool]:
        """Return the request's answer, and True if the request is new, so this thread has to run the handler."""
        self._check_call(request)
        with self._lock:
            known = self._answers.get(request.id)
            if known is not None:
                return known, False
            if self._ended.is_set():
                raise _RefusedError("no more tool calls are accepted: the script has ended")
            if len(self._answers) >= self._max_calls:
                self._over_limit += 1
                raise _RefusedError(
                    f"the limit of {self._max_calls} tool calls for one script (max_tool_calls) is reached; "
                    "do more with each call, or go on in another script"
                )
            return self._answers.begin(request.id), True

    def _check_call(self, request: Request) -> None:
        if request.tool not in self._handlers:
            names = ", ".join(sorted(self._handlers)) or "none"
            raise _RefusedError(f"there is no such tool; available tools: {names}")
        signature = self._signatures[request.tool]
        try:
            signature.check(list(request.args), dict(request.kwargs))
        except TypeError as error:
            raise _RefusedError(f"wrong arguments: {error}; the call is {request.tool}{signature.shown()}") from error

    def _run(self, request: Request) -> tuple[bytes, str | None]:
        """Return the answer to a call as a line, and the error text if the call failed."""
        # SystemExit too: whatever a handler does, the script gets an answer and the thread goes on.
        facts = partial(self._facts, request)
        with self.scope.active(), observed("tool_call", request.tool, facts) as operation:
            try:
                if self._before_call:
                    self._before_call(request.tool, self._arguments(request))
            except BaseException as error:
                problem = self._problem(request, _describe(error))
                _report_problem(operation, problem, error)
                return Response(request.id, error=problem).encode(), problem
            try:
                result = self._handlers[request.tool](*request.args, **request.kwargs)
                if inspect.isawaitable(result):
                    result = self._event_loop.result_of(result)
            except BaseException as error:
                encoded, problem = self._failure(request, _describe(error))
                _report_problem(operation, problem, error)
                return encoded, problem
            return self._answer(request, result, operation)

    def _answer(self, request: Request, result: object, operation: Operation) -> tuple[bytes, str | None]:
        try:
            encoded, problem = Response(request.id, cast("JsonValue", result)).encode(), _result_error(result)
        except Exception as error:
            kind = type(result).__name__
            encoded, problem = self._failure(request, f"the result, of type {kind}, can't be sent: {_describe(error)}")
        else:
            operation.add_facts(result=result)
        _report_problem(operation, problem)
        return encoded, problem

    def _facts(self, request: Request) -> Mapping[str, object]:
        return {"tool": request.tool, "arguments": self._arguments(request)}

    def _arguments(self, request: Request) -> Mapping[str, object]:
        return self._signatures[request.tool].arguments(list(request.args), dict(request.kwargs))

    def _failure(self, request: Request, text: str) -> tuple[bytes, str]:
        problem = self._problem(request, text)
        return Response(request.id, {"error": problem}).encode(), problem

    def _problem(self, request: Request, text: str) -> str:
        return _error_text(request, self._signatures[request.tool].without_bound(text))


def _report_problem(operation: Operation, problem: str | None, error: BaseException | None = None) -> None:
    """Record the error of a call, if any."""
    if error is not None:
        operation.add_error(error)
    if problem is not None:
        operation.add_facts(status="error" if error is None else status_of(error), error=problem)


def _describe(error: BaseException) -> str:
    kind = type(error).__name__
    try:
        message = str(error)
    except Exception:
        message = ""
    if isinstance(error, MessageError | DeniedError):
        return message
    return f"{kind}: {message}" if message else kind


def _error_text(request: Request, text: str) -> str:
    return f"{request.tool}: {text}"[:MAX_ERROR_CHARACTERS]


def _error_response(request: Request, text: str) -> Response:
    return Response(request.id, error=_error_text(request, text))


def _result_error(result: object) -> str | None:
    """Return the `error` of a tool's result, or None."""
    error = result.get("error") if isinstance(result, dict) else None
    return error if isinstance(error, str) and error else None
