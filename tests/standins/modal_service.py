"""Serves a protobuf service: a class's calls with injected faults, and UNIMPLEMENTED for all others."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from grpclib import GRPCError, Status
from grpclib.const import Cardinality, Handler
from grpclib.server import Stream

from standins.faults import SLOW_SECONDS, Fault, Ledger

TOKEN_ID, TOKEN_SECRET = "ak-standin", "as-standin"

_REFUSALS = {
    Fault.UNAVAILABLE: Status.UNAVAILABLE,
    Fault.UNAUTHENTICATED: Status.UNAUTHENTICATED,
    Fault.RATE_LIMITED: Status.RESOURCE_EXHAUSTED,
    Fault.BAD_GATEWAY: Status.INTERNAL,
}


class GRPCService:
    """A service of Modal. Subclasses have a coroutine or an asynchronous generator for each served call."""

    def __init__(self, descriptor: ServiceDescriptor, ledger: Ledger) -> None:
        self._descriptor, self._ledger = descriptor, ledger

    async def sandbox_dies(self, request: Message) -> None:
        """End the sandbox of a request."""
        raise NotImplementedError

    def check_caller(self, stream: Stream[Any, Any]) -> None:
        """Raise GRPCError for a caller without valid credentials."""

    def __mapping__(self) -> dict[str, Handler]:
        return {
            f"/{self._descriptor.full_name}/{method.name}": Handler(
                self._handler(method),
                _cardinality(method),
                GetMessageClass(method.input_type),
                GetMessageClass(method.output_type),
            )
            for method in self._descriptor.methods
        }

    def _handler(self, method: MethodDescriptor) -> Callable[[Stream[Any, Any]], Awaitable[None]]:
        serve: Any = getattr(self, method.name, None)

        async def handle(stream: Stream[Any, Any]) -> None:
            fault = self._ledger.note(method.name)
            if serve is None or method.client_streaming:
                self._ledger.lacks(method.name)
                raise GRPCError(Status.UNIMPLEMENTED, f"the stand-in has no {method.name}")
            if fault in _REFUSALS:
                raise GRPCError(_REFUSALS[fault], "ordered by a test")
            self.check_caller(stream)
            request = await stream.recv_message()
            if fault is Fault.SANDBOX_DIES:
                await self.sandbox_dies(request)
            if fault is Fault.SWALLOWED:
                await stream.send_message(GetMessageClass(method.output_type)())
                return
            if fault is Fault.SLOW:
                await asyncio.sleep(SLOW_SECONDS)
            if fault is Fault.HELD:
                await self._ledger.hold()
            answers = serve(request) if method.server_streaming else _once(serve(request))
            async with contextlib.aclosing(answers):
                async for answer in answers:
                    if fault is Fault.DROPPED:
                        await stream.cancel()
                        return
                    await stream.send_message(answer)

        return handle


async def _once(answer: Awaitable[Message]) -> AsyncIterator[Message]:
    yield await answer


def _cardinality(method: MethodDescriptor) -> Cardinality:
    if method.client_streaming:
        return Cardinality.STREAM_STREAM if method.server_streaming else Cardinality.STREAM_UNARY
    return Cardinality.UNARY_STREAM if method.server_streaming else Cardinality.UNARY_UNARY


def jwt(lifetime: float = 3600) -> str:
    """Return an unsigned token with the time of renewal, as the client reads it."""
    parts = ({"alg": "none"}, {"exp": time.time() + lifetime})
    encoded = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts]
    return ".".join([*encoded, "unsigned"])
