"""One page: fetched, told apart by what it is, and turned into text."""

from __future__ import annotations

import tempfile
from typing import BinaryIO, Literal

from hermes_tools.web.convert import ConversionError, converted
from hermes_tools.web.deadline import Deadline
from hermes_tools.web.fetch import Fetched, FetchError, fetch
from hermes_tools.web.settings import WebSettings
from hermes_tools.web.text import beginning, looks_like_text

_HTML = ("text/html", "application/xhtml+xml")
_PDF = ("application/pdf", "application/x-pdf")
_TEXT = ("application/json", "application/xml", "application/javascript", "application/yaml", "application/x-sh")
_UNTOLD = ("", "application/octet-stream", "binary/octet-stream", "application/x-download")
"""What a server says that does not know."""
_HEAD = 1024


class PageError(Exception):
    """The page cannot be read. The message is for the caller."""


def read_page(url: object, form: str, settings: WebSettings, deadline: Deadline) -> tuple[str, str]:
    """Return the title and the content of a page.

    Args:
        url: Where it is.
        form: `markdown`, `text` or `html`.
        settings: Bounds.
        deadline: Ends it.

    Raises:
        PageError: It cannot be read.
        OutOfTimeError: The time is up.
        ToolInterruptedError: Nobody waits any more.
    """
    if not isinstance(url, str):
        raise PageError(f"a URL is text, and this is of type {type(url).__name__}")
    try:
        with tempfile.TemporaryFile() as body:  # memory stays free, whoever asks for how many pages
            page = fetch(url, body, settings, deadline)
            title, text = _read(body, page, form, settings.extract_char_limit, deadline)
    except (FetchError, ConversionError) as error:
        raise PageError(str(error)) from error
    except OSError as error:
        raise PageError(f"it could not be kept here to be read: {error.strerror}") from error
    return title, _cut(text, settings.extract_char_limit)


def _read(body: BinaryIO, page: Fetched, form: str, most: int, deadline: Deadline) -> tuple[str, str]:
    kind = _kind(body, page.media_type)
    if kind == "pdf" or (kind == "html" and form != "html"):
        return converted(kind, body, page, form == "markdown", most, deadline)
    return "", beginning(body, page.charset, most)


def _kind(body: BinaryIO, media_type: str) -> Literal["html", "pdf", "text"]:
    """Tell what a page is, by what its server says, or else by how it begins."""
    body.seek(0)
    head = body.read(_HEAD)
    if media_type in _PDF or (media_type in _UNTOLD and head.startswith(b"%PDF-")):
        return "pdf"
    if media_type in _HTML:
        return "html"
    is_text = media_type.startswith("text/") or media_type in _TEXT or media_type.endswith(("+json", "+xml"))
    if not (is_text or media_type in _UNTOLD) or not looks_like_text(head):
        raise PageError(f"it is no page, text or PDF, but {media_type or 'something else'!r:.100}")
    start = head.lstrip().lower()
    return "html" if not is_text and start.startswith((b"<!doctype html", b"<html")) else "text"


def _cut(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    return f"{text[:most]}\n\n[cut: the page has more than these {most:,} characters]"
