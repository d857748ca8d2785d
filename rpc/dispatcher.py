"""Answering a script's requests: who may call what, how often, and never twice for one request."""

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
"""How much of answers that were given is kept, for requests that come again; the oldest go first."""
WAIT_POLL = 1.0
"""Seconds between looks at whether anybody is still to be told, while an answer is waited for."""


class Answer:
    """Where the answer to one request will be."""

    def __init__(self) -> None:
        self._missing = threading.Lock()  # held until it is there; an Event would cost a call twice as much
        self._missing.acquire()
        self._line: bytes | None = None

    def store(self, line: bytes) -> None:
        """Let everybody have it who waits for it. It is given once."""
        self._line = line
        self._missing.release()

    def discard(self) -> None:
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

    def retain(self, identity: str) -> None:
        """Note that a request has been answered, and let go of what is too much to keep."""
        answer = self._by_id[identity]
        self._kept[identity] = answer
        self._kept_bytes += answer.size
        while self._kept_bytes > KEPT_BYTES:
            _, oldest = self._kept.popitem(last=False)
            self._kept_bytes -= oldest.size
            oldest.discard()


Handlers = Mapping[str, Callable[..., object]]
BeforeCall = Callable[[str, Mapping[str, object]], object]

MAX_ERROR_CHARACTERS = 10_000
"""An exception's message may hold a whole file; a script's author needs the start of it."""
FREE_REFUSALS = 100
"""How many requests are refused at once. A script that goes on regardless is answered more slowly, so that it does not
take the time of others."""
REFUSAL_PAUSE = 0.05
"""Seconds before each further refusal."""
CLOSE_GRACE_SECONDS = 2.0
"""How long what is awaited may take to end."""
REFUSED_BYTES_PER_SECOND = 8_000_000
"""How fast what is refused is taken: it costs time to bring and to read."""
_WRONG_TOKEN = "the token is wrong: only the script it was made for may call tools"  # noqa: S105 - no secret


class _RefusedError(Exception):
    """The request is not run; the text is for the script's author."""


class Dispatcher:
    """Runs the handlers that a script's requests name, each in the thread its request is dispatched in.

    What a handler returns to be awaited, as an `async def` does, is awaited on one event loop for all of them.
    Handlers run side by side; no lock is held while one runs. They run in a `CancelScope`, so that the commands
    they started in an environment end when the dispatcher is closed.
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
        """Take the handlers a script may call.

        Args:
            handlers: Tool name to function; nothing else can be called.
            token: What each request must carry.
            max_calls: How many calls are accepted; requests are remembered for that many.
            before_call: Called before each call, in the same thread, with the tool's name and its arguments by their
                names. What it raises keeps the tool from being called, and is the answer.
            log: Is told of each accepted call.

        Raises:
            ValueError: The token is empty.
        """
        if not token:
            raise ValueError("the token is empty: any request would be accepted")
        self.token = token
        self._handlers = dict(handlers)
        self._signatures = {name: ToolSignature.of(handler) for name, handler in self._handlers.items()}
        self.prefix = request_prefix(token)
        """What every request begins with. Of a line that does not, nothing more need be read."""
        self._max_calls = max_calls
        self._before_call = before_call
        self._log = log or ToolCallLog()
        self._answers = Answers()
        self._lock = threading.Lock()
        self.scope = CancelScope(is_trusted=False)
        """What the handlers do their work in."""
        self._context = copy_context()  # tools see the context variables of whoever asked for the script
        self._event_loop = EventLoopThread()
        self._refusals = self._refused_bytes = self._over_limit = 0
        self._ended = threading.Event()

    @property
    def limit_reached(self) -> str | None:
        """What is to be said of the limit of calls, if it was reached; None if it was not."""
        if not self._over_limit:
            return None
        calls = "1 tool call was" if self._over_limit == 1 else f"{self._over_limit} tool calls were"
        return f"The limit of {self._max_calls} tool calls (max_tool_calls) was reached: {calls} refused."

    @property
    def calls_made(self) -> int:
        """How many calls were accepted so far, those that failed included."""
        return len(self._answers)

    def dispatch(self, line: bytes) -> bytes:
        """Run what one request asks for and return its answer as a line.

        A request that is refused is answered with an error; a tool that fails has a result, `{"error": ...}`.
        A request whose id came before does not run again: it gets the first one's answer, waiting for it
        where the first one is still running. Nothing is raised, whatever the line holds.
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
        """Do a call, and note its end."""
        encoded, problem = self._run(request)
        self._log.ended(number, problem)
        return encoded

    def refusal(self, size: int) -> bytes:
        """Return the answer to what does not begin with the token, of which `size` bytes have come."""
        return self._refusal(Response("", error=_WRONG_TOKEN), size)

    def close(self) -> None:
        """End the commands that running handlers started, cancel those that are awaited, and refuse later requests."""
        self._ended.set()
        self._event_loop.close()
        self.scope.cancel()

    @property
    def is_awaiting(self) -> bool:
        """Whether there is anything to `join`."""
        return self._event_loop.is_started

    def join(self, timeout: float = CLOSE_GRACE_SECONDS) -> None:
        """Wait so many seconds, once it is closed, for what was awaited to end."""
        self._event_loop.join(timeout)

    def _refusal(self, response: Response, size: int) -> bytes:
        self._refusals += 1
        self._refused_bytes += size
        pause = REFUSAL_PAUSE if self._refusals > FREE_REFUSALS else 0.0
        if self._refused_bytes > MAX_MESSAGE_BYTES:  # one that is too large may be a mistake
            pause += size / REFUSED_BYTES_PER_SECOND
        if pause:
            self._ended.wait(pause)
        return response.encode()

    def _accept(self, request: Request) -> tuple[Answer, bool]:
        """Return where the request's answer will be, and whether this caller is the one to find it."""
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
            raise _RefusedError(f"there is no such tool; those that can be called: {names}")
        signature = self._signatures[request.tool]
        try:
            signature.check(list(request.args), dict(request.kwargs))
        except TypeError as error:
            raise _RefusedError(f"wrong arguments: {error}; the call is {request.tool}{signature.shown()}") from error

    def _run(self, request: Request) -> tuple[bytes, str | None]:
        """Return the answer to a call as a line, and what went wrong with it, if anything did."""
        # SystemExit too: whatever a handler does, its script gets an answer and its thread goes on.
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
            encoded, problem = Response(request.id, cast("JsonValue", result)).encode(), _reported(result)
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
        return _about(request, self._signatures[request.tool].without_bound(text))


def _report_problem(operation: Operation, problem: str | None, error: BaseException | None = None) -> None:
    """Say what went wrong with a call, if anything did."""
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


def _about(request: Request, text: str) -> str:
    return f"{request.tool}: {text}"[:MAX_ERROR_CHARACTERS]


def _error_response(request: Request, text: str) -> Response:
    return Response(request.id, error=_about(request, text))


def _reported(result: object) -> str | None:
    """Return what a tool says in its result about what it could not do."""
    error = result.get("error") if isinstance(result, dict) else None
    return error if isinstance(error, str) and error else None
