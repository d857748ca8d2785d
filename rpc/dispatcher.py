"""Answering a script's requests: who may call what, how often, and never twice for one request."""

from __future__ import annotations

import hmac
import inspect
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import cast

from environments.cancellation import CancelScope
from rpc.messages import JsonValue, MessageError, Request, Response

Handlers = Mapping[str, Callable[..., object]]

MAX_ERROR_CHARACTERS = 10_000
"""An exception's message may hold a whole file; a script's author needs the start of it."""


class _RefusedError(Exception):
    """The request is not run; the text is for the script's author."""


class Dispatcher:
    """Runs the handlers that a script's requests name, each in the thread its request is dispatched in.

    Handlers run side by side; no lock is held while one runs. They run in a `CancelScope`, so that the
    commands they started in an environment end when the dispatcher is closed.
    """

    def __init__(self, handlers: Handlers, *, token: str, max_calls: int = 50) -> None:
        """Take the handlers a script may call.

        Args:
            handlers: Tool name to function; nothing else can be called.
            token: What each request must carry.
            max_calls: How many calls are accepted; answers are remembered for that many.

        Raises:
            ValueError: The token is empty.
        """
        if not token:
            raise ValueError("the token is empty: any request would be accepted")
        self._handlers = dict(handlers)
        self._signatures = {name: _signature(handler) for name, handler in self._handlers.items()}
        self._token = token.encode()
        self._max_calls = max_calls
        self._answers: dict[str, Future[bytes]] = {}
        self._lock = threading.Lock()
        self._scope = CancelScope()
        self._closed = False

    @property
    def calls_made(self) -> int:
        """How many calls were accepted so far, those that failed included."""
        return len(self._answers)

    def dispatch(self, line: bytes) -> bytes:
        """Run what one request asks for and return its answer as a line; an error is an answer too.

        A request whose id was seen before does not run again: it gets the first one's answer, waiting for it
        where the first one is still running. Nothing is raised, whatever the line holds.
        """
        try:
            request = Request.decode(line)
        except MessageError as error:
            return Response("", error=f"the request was not understood: {error}").encode()
        try:
            answer, is_new = self._accept(request)
        except _RefusedError as refusal:
            return _error_answer(request, str(refusal))
        if is_new:
            answer.set_result(self._run(request))
        return answer.result()

    def close(self) -> None:
        """End the commands that running handlers started, and refuse every later request."""
        with self._lock:
            self._closed = True
        self._scope.cancel()

    def _accept(self, request: Request) -> tuple[Future[bytes], bool]:
        """Return where the request's answer will be, and whether this caller is the one to find it."""
        if not hmac.compare_digest(request.token.encode(errors="backslashreplace"), self._token):
            raise _RefusedError("the token is wrong: only the script it was made for may call tools")
        self._check_call(request)
        with self._lock:
            known = self._answers.get(request.id)
            if known is not None:
                return known, False
            if self._closed:
                raise _RefusedError("no more tool calls are accepted: the script has ended")
            if len(self._answers) >= self._max_calls:
                raise _RefusedError(
                    f"the limit of {self._max_calls} tool calls for one script is reached; "
                    "do more with each call, or go on in another script"
                )
            answer = self._answers[request.id] = Future()
            return answer, True

    def _check_call(self, request: Request) -> None:
        if request.tool not in self._handlers:
            names = ", ".join(sorted(self._handlers)) or "none"
            raise _RefusedError(f"there is no such tool; those that can be called: {names}")
        signature = self._signatures[request.tool]
        if signature is None:
            return
        try:
            signature.bind(*request.args, **request.kwargs)
        except TypeError as error:
            raise _RefusedError(f"wrong arguments: {error}; the call is {request.tool}{signature}") from error

    def _run(self, request: Request) -> bytes:
        try:
            with self._scope.active():
                result = self._handlers[request.tool](*request.args, **request.kwargs)
        # SystemExit too: whatever a handler does, its script gets an answer and its thread goes on.
        except BaseException as error:
            return _error_answer(request, _describe(error))
        try:
            return Response(request.id, cast("JsonValue", result)).encode()
        except Exception as error:
            kind = type(result).__name__
            return _error_answer(request, f"the result, of type {kind}, can't be sent: {_describe(error)}")


def _signature(handler: Callable[..., object]) -> inspect.Signature | None:
    try:
        return inspect.signature(handler)
    except (TypeError, ValueError):
        # Some functions written in C have none; they check their arguments themselves.
        return None


def _describe(error: BaseException) -> str:
    kind = type(error).__name__
    try:
        message = str(error)
    except Exception:
        message = ""
    if isinstance(error, MessageError):
        return message
    return f"{kind}: {message}" if message else kind


def _error_answer(request: Request, text: str) -> bytes:
    return Response(request.id, error=f"{request.tool}: {text}"[:MAX_ERROR_CHARACTERS]).encode()
