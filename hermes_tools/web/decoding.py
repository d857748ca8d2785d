"""Unpacking the body of an answer in small steps, so that a little that comes cannot become much here."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator

ACCEPTED = "gzip, deflate"
"""What is asked for. Others (br, zstd) can only be unpacked as a whole, whatever that becomes."""
_STEP = 65536
_ANY_HEADER = 32 + zlib.MAX_WBITS


class BodyError(Exception):
    """The body cannot be taken."""


def unpacked(raw: Iterable[bytes], encoding: str, most_bytes: int) -> Iterator[bytes]:
    """Return a body in pieces of at most 64 KB or as they come.

    Args:
        raw: What comes from the other side.
        encoding: Its Content-Encoding.
        most_bytes: Of what comes, and of what it becomes.

    Raises:
        BodyError: It is larger, packed in another way, or damaged.
    """
    raw = _bounded(raw, most_bytes)
    name = encoding.strip().lower()
    if name in ("", "identity"):
        return raw
    if name in ("gzip", "x-gzip", "deflate"):
        return _bounded(_inflated(raw), most_bytes)
    raise BodyError(f"the body is packed with {encoding!r:.40}, which was not asked for")


def too_large(most_bytes: int) -> BodyError:
    """Return the error for a body that is larger than that."""
    return BodyError(f"the page is larger than {most_bytes:,} bytes (web.max_bytes)")


def _bounded(pieces: Iterable[bytes], most_bytes: int) -> Iterator[bytes]:
    size = 0
    for piece in pieces:
        size += len(piece)
        if size > most_bytes:
            raise too_large(most_bytes)
        yield piece


def _inflated(raw: Iterable[bytes]) -> Iterator[bytes]:
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
    """Whether it begins as gzip or zlib does. Some servers leave that out, although they should not."""
    return piece[0] == 0x1F or (piece[0] & 0x0F == 8 and int.from_bytes(piece[:2].ljust(2, b"\0")) % 31 == 0)
