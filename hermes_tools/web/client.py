"""An HTTP client of httpx on connections that a deadline ends, and what its status codes mean."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from http import HTTPStatus

import httpcore
import httpx

from hermes_tools.web.addresses import AddressRules
from hermes_tools.web.connection import CheckedNetwork
from hermes_tools.web.deadline import Deadline


def http_client(deadline: Deadline, rules: AddressRules | None, user_agent: str) -> httpx.Client:
    """Return a client that follows no redirects and uses no proxy: a proxy would resolve the names by itself.

    Args:
        deadline: Ends its requests.
        rules: Where it may connect to; None is anywhere.
        user_agent: What it calls itself.
    """
    transport = _Transport(CheckedNetwork(deadline, rules))
    return httpx.Client(transport=transport, trust_env=False, timeout=None, headers={"User-Agent": user_agent})  # noqa: S113 - the deadline is the time limit


def status(code: int) -> str:
    """Return a status code with what it means."""
    try:
        return f"{code} {HTTPStatus(code).phrase}"
    except ValueError:
        return str(code)


class _Transport(httpx.BaseTransport):
    """httpx's own transport takes no network of ours."""

    def __init__(self, network: httpcore.NetworkBackend) -> None:
        self._pool = httpcore.ConnectionPool(ssl_context=httpx.create_ssl_context(), network_backend=network)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        url = request.url
        parts = httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path)
        with _translated(request):
            answer = self._pool.handle_request(
                httpcore.Request(request.method, parts, headers=request.headers.raw, content=request.read())
            )
        stream = _Body(answer, request)
        return httpx.Response(answer.status, headers=answer.headers, stream=stream, extensions=answer.extensions)

    def close(self) -> None:
        self._pool.close()


class _Body(httpx.SyncByteStream):
    def __init__(self, answer: httpcore.Response, request: httpx.Request) -> None:
        self._answer = answer
        self._request = request

    def __iter__(self) -> Iterator[bytes]:
        with _translated(self._request):
            yield from self._answer.iter_stream()

    def close(self) -> None:
        self._answer.close()


@contextlib.contextmanager
def _translated(request: httpx.Request) -> Iterator[None]:
    try:
        yield
    except httpcore.LocalProtocolError:
        # Its message would repeat the header, which may be a key.
        raise httpx.LocalProtocolError("a header of ours would hold what none may", request=request) from None
    except httpcore.ProtocolError as error:
        raise httpx.RemoteProtocolError(f"it does not speak HTTP as it should: {error}", request=request) from error
    except (httpcore.NetworkError, httpcore.TimeoutException, httpcore.UnsupportedProtocol) as error:
        raise httpx.NetworkError(str(error), request=request) from error
