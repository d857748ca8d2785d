"""An HTTP client of httpx on checked connections, and bodies unpacked in small steps."""

from __future__ import annotations

import contextlib
import ssl
import zlib
from collections.abc import Iterable, Iterator
from http import HTTPStatus

import httpcore
import httpx

from hermes_tools.interruption import Deadline
from hermes_tools.web.network import AddressRules, CheckedNetwork

ACCEPTED = "gzip, deflate"
"""The requested encodings. Others (br, zstd) can only be unpacked as a whole, whatever the size."""
_STEP = 65536
_ANY_HEADER = 32 + zlib.MAX_WBITS


class BodyError(Exception):
    """The body is too large, damaged, or in an unknown encoding."""


def http_client(deadline: Deadline, rules: AddressRules | None, user_agent: str) -> httpx.Client:
    """Return a client without redirects and proxies: a proxy would resolve names without the checks.

    Args:
        deadline: Ends the requests.
        rules: The allowed addresses; None allows all.
        user_agent: The header User-Agent.
    """
    transport = _Transport(CheckedNetwork(deadline, rules))
    return httpx.Client(transport=transport, trust_env=False, timeout=None, headers={"User-Agent": user_agent})  # noqa: S113 - the deadline is the time limit


def status(code: int) -> str:
    """Return a status code and its phrase."""
    try:
        return f"{code} {HTTPStatus(code).phrase}"
    except ValueError:
        return str(code)


def body_of(answer: httpx.Response, most_bytes: int, setting: str = "") -> Iterator[bytes]:
    """Return the body of an answer, unpacked, in pieces of at most 64 KB or as received.

    Args:
        answer: A response with a body still to be read.
        most_bytes: The limit, packed and unpacked.
        setting: The name of the setting of the limit, for the error.

    Raises:
        BodyError: The body is larger, packed in another way, or damaged.
    """
    suffix = f" ({setting})" if setting else ""
    too_large = BodyError(f"the body is larger than {most_bytes:,} bytes{suffix}")
    length = answer.headers.get("Content-Length", "")
    if length.isascii() and length.isdigit() and len(length) < 20 and int(length) > most_bytes:
        raise too_large
    raw = _limit_size(answer.iter_raw(), most_bytes, too_large)
    encoding = answer.headers.get("Content-Encoding", "")
    name = encoding.strip().lower()
    if name in ("", "identity"):
        return raw
    if name in ("gzip", "x-gzip", "deflate"):
        return _limit_size(_inflate(raw), most_bytes, too_large)
    raise BodyError(f"the body has the encoding {encoding!r:.40}, which was not requested")


def _limit_size(pieces: Iterable[bytes], most_bytes: int, too_large: BodyError) -> Iterator[bytes]:
    size = 0
    for piece in pieces:
        size += len(piece)
        if size > most_bytes:
            raise too_large
        yield piece


def _inflate(raw: Iterable[bytes]) -> Iterator[bytes]:
    unpacker = None
    for piece in raw:
        if unpacker is None and piece:
            unpacker = zlib.decompressobj(_ANY_HEADER if _has_header(piece) else -zlib.MAX_WBITS)
        rest = piece
        while rest and unpacker and not unpacker.eof:
            try:
                yield unpacker.decompress(rest, _STEP)
            except zlib.error:
                raise BodyError("the body is damaged: it cannot be unpacked") from None
            rest = unpacker.unconsumed_tail
    if unpacker and not unpacker.eof:
        raise BodyError("the body is damaged: it ends too early")


def _has_header(piece: bytes) -> bool:
    """Return True if a body begins as gzip or zlib. Some servers leave this header out, against the rules."""
    return piece[0] == 0x1F or (piece[0] & 0x0F == 8 and int.from_bytes(piece[:2].ljust(2, b"\0")) % 31 == 0)


class _Transport(httpx.BaseTransport):
    """A transport with `CheckedNetwork` as network backend; httpx's own transport has no such parameter."""

    def __init__(self, network: httpcore.NetworkBackend) -> None:
        # This context trusts no authority and is unused: `CheckedNetwork` has a context for the whole process.
        unused = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._pool = httpcore.ConnectionPool(ssl_context=unused, network_backend=network)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        url = request.url
        parts = httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path)
        with _mapped_errors(request):
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
        with _mapped_errors(self._request):
            yield from self._answer.iter_stream()

    def close(self) -> None:
        self._answer.close()


@contextlib.contextmanager
def _mapped_errors(request: httpx.Request) -> Iterator[None]:
    try:
        yield
    except httpcore.LocalProtocolError:
        # The original message would repeat the header, which may be a key.
        raise httpx.LocalProtocolError("a request header has invalid characters", request=request) from None
    except httpcore.ProtocolError as error:
        raise httpx.RemoteProtocolError(f"the server violates the HTTP protocol: {error}", request=request) from error
    except (httpcore.NetworkError, httpcore.TimeoutException, httpcore.UnsupportedProtocol) as error:
        raise httpx.NetworkError(str(error), request=request) from error
