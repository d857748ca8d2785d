"""Text of a body that is text already, as far as it is wanted."""

from __future__ import annotations

import codecs
import re
from typing import BinaryIO

_BYTES_PER_CHARACTER = 4
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_META = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?([A-Za-z0-9_.:-]{1,40})", re.IGNORECASE)
_HEAD = 4096
_NO_CHARSETS = frozenset({"idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape"})
"""What Python can decode and no page is in. Some take a time that grows with the square of the length."""


def looks_like_text(head: bytes) -> bool:
    """Whether a body that begins like that is text: it has a byte order mark, or no NUL bytes."""
    return b"\0" not in head or any(head.startswith(mark) for mark, _ in _MARKS)


def beginning(body: BinaryIO, charset: str, most_characters: int) -> str:
    """Decode the beginning of a body: at least one character more than is wanted, if there are any.

    Args:
        body: Is read from its start.
        charset: As its server says, or nothing. It is not believed where the body contradicts it.
        most_characters: How many are wanted.
    """
    body.seek(0)
    data = body.read((most_characters + 1) * _BYTES_PER_CHARACTER)
    at_end = not body.read(1)
    for mark, name in _MARKS:
        if data.startswith(mark):
            return _decoded(data[len(mark) :], name, at_end, "replace")
    for name in (*charsets(body, charset), "utf-8"):
        try:
            return _decoded(data, name, at_end, "strict")
        except ValueError:
            continue
    return _decoded(data, "cp1252", at_end, "replace")


def charsets(body: BinaryIO, charset: str) -> list[str]:
    """Return the charsets that a page may be in: that of its server, if there is one, and that of itself.

    Args:
        body: Is read from its start.
        charset: As its server says, or nothing.
    """
    body.seek(0)
    found = _META.search(body.read(_HEAD))
    return [name for name in (charset, found[1].decode() if found else "") if _is_charset(name)]


def _is_charset(name: str) -> bool:
    try:
        known = codecs.lookup(name).name
        b"text".decode(name, "replace")  # which refuses what is no charset but a codec, such as zlib
    except (LookupError, ValueError):
        return False
    return known not in _NO_CHARSETS


def _decoded(data: bytes, charset: str, at_end: bool, errors: str) -> str:
    """Decode text that may end in the middle of a character."""
    return codecs.getincrementaldecoder(charset)(errors).decode(data, at_end)
