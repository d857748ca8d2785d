"""What an HTTP request has to pass before the server sees it: where it comes from, the token, and the protocol."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable
from http import HTTPStatus

import anyio
from mcp.server.transport_security import TransportSecurityMiddleware, TransportSecuritySettings
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp.types import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    UNSUPPORTED_PROTOCOL_VERSION,
    ErrorData,
    JSONRPCError,
    UnsupportedProtocolVersionErrorData,
)
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hermes_env.mcp.call import GONE

PATH = "/mcp"
_LOOK = 0.05
_PLACE = re.compile(r"(?:\[[0-9a-fA-F:.]*\]|[^:@\[\]]*)(?::[0-9]{1,5})?")
"""A host, and a port if one is given. The library compares no more of a name than what is before its port."""


class Gate:
    """Lets those requests through that may come in.

    Args:
        app: The server behind it.
        token: What each request has to bring as its bearer token.
        hosts: The names by which this machine may be called. A page of a browser that has been led here under
            another name, or comes from elsewhere, is refused, though the browser's user may reach us.
    """

    def __init__(self, app: ASGIApp, token: str, hosts: Iterable[str]) -> None:
        self._app = app
        self._token = token.encode()
        names = list(hosts)
        allowed = [form for name in names for form in (name, f"{name}:*")]
        origins = [f"{scheme}://{form}" for scheme in ("http", "https") for form in allowed]
        self._security = TransportSecurityMiddleware(
            TransportSecuritySettings(allowed_hosts=allowed, allowed_origins=origins)
        )
        self._is_closed = False
        self._waiting: set[anyio.Event] = set()
        """An event for each request that a client waits for the answer to."""

    async def close(self, patience: float) -> None:
        """Let nobody in any more, have all calls ended, and wait for their answers to be given.

        Args:
            patience: Seconds to wait at most, as a client may not read its answer.
        """
        self._is_closed = True
        for gone in self._waiting:
            gone.set()
        with anyio.move_on_after(patience):
            while self._waiting:
                await anyio.sleep(_LOOK)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a request, or hand it on."""
        if scope["type"] != "http":
            return
        request = Request(scope)
        refusal = await self._security.validate_request(request) or _misled(request) or self._refusal(request)
        if refusal:
            await refusal(scope, receive, send)
            return
        gone = scope[GONE] = anyio.Event()
        if request.method == "POST":
            self._waiting.add(gone)
        answer = _Answer(send)
        try:
            await self._app(scope, receive, answer.send)
        except RuntimeError:
            if not answer.is_complete:  # it says so when a notification meets the end of its session
                raise
        finally:
            self._waiting.discard(gone)
            gone.set()

    def _refusal(self, request: Request) -> Response | None:
        if self._is_closed:
            return _error(HTTPStatus.SERVICE_UNAVAILABLE, INTERNAL_ERROR, "The server is ending")
        if request.url.path.rstrip("/") != PATH:
            return _error(HTTPStatus.NOT_FOUND, INVALID_REQUEST, f"There is nothing here but {PATH}")
        if not self._has_token(request):
            refusal = _error(HTTPStatus.UNAUTHORIZED, INVALID_REQUEST, "The bearer token is missing or wrong")
            refusal.headers["WWW-Authenticate"] = "Bearer"
            return refusal
        version = request.headers.get(MCP_PROTOCOL_VERSION_HEADER)
        if version is None or version in HANDSHAKE_PROTOCOL_VERSIONS:
            return None
        # A newer protocol has no sessions, and no questions to the client. Told so, clients begin as with an older one.
        known = UnsupportedProtocolVersionErrorData(supported=list(HANDSHAKE_PROTOCOL_VERSIONS), requested=version)
        message = "This server has sessions, and begins with initialize"
        return _error(HTTPStatus.BAD_REQUEST, UNSUPPORTED_PROTOCOL_VERSION, message, known.model_dump(mode="json"))

    def _has_token(self, request: Request) -> bool:
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        return scheme.lower() == "bearer" and secrets.compare_digest(given.strip().encode(), self._token)


class _Answer:
    """Knows whether an answer has been sent whole."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.is_complete = False

    async def send(self, message: Message) -> None:
        await self._send(message)
        self.is_complete = message["type"] == "http.response.body" and not message.get("more_body", False)


def _misled(request: Request) -> Response | None:
    """Return the refusal of a request for another name that begins with one of ours, or from such a place."""
    if not _PLACE.fullmatch(request.headers.get("host", "")):
        return _error(HTTPStatus.MISDIRECTED_REQUEST, INVALID_REQUEST, "Host should be a name, or a name with a port")
    if not _PLACE.fullmatch(request.headers.get("origin", "").partition("://")[2]):
        return _error(HTTPStatus.FORBIDDEN, INVALID_REQUEST, "Origin should be a name, or a name with a port")
    return None


def _error(status: HTTPStatus, code: int, message: str, data: object = None) -> Response:
    error = JSONRPCError(jsonrpc="2.0", id=None, error=ErrorData(code=code, message=message, data=data))
    return Response(error.model_dump_json(exclude_none=True), status, media_type="application/json")
