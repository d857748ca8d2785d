"""A web page: fetched with a check of each redirect, and converted into text by its type."""

from __future__ import annotations

import codecs
import re
import tempfile
from dataclasses import dataclass
from typing import BinaryIO, Literal

import httpx

from hermes_tools.interruption import Deadline
from hermes_tools.web.client import ACCEPTED, BodyError, body_of, http_client, status
from hermes_tools.web.convert import ConversionError, convert
from hermes_tools.web.network import AddressRefusedError, AddressRules, LookupFailedError
from hermes_tools.web.settings import WebSettings

_MAX_REDIRECTS = 10
_LONGEST_URL = 8000
_ACCEPT = "text/html,application/xhtml+xml,application/pdf,text/*;q=0.9,application/json;q=0.9,*/*;q=0.5"

_HTML = ("text/html", "application/xhtml+xml")
_PDF = ("application/pdf", "application/x-pdf")
_TEXT = ("application/json", "application/xml", "application/javascript", "application/yaml", "application/x-sh")
_UNKNOWN = ("", "application/octet-stream", "binary/octet-stream", "application/x-download")
"""Types sent by servers for an unknown type."""
_HEAD = 4096

_BYTES_PER_CHARACTER = 4
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_META = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?([A-Za-z0-9_.:-]{1,40})", re.IGNORECASE)
_NO_CHARSETS = frozenset({"idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape"})
"""Python codecs other than charsets of pages. Some take quadratic time."""


class PageError(Exception):
    """The page cannot be read. The message is for the caller."""


@dataclass(frozen=True, slots=True)
class _Fetched:
    """A fetched page, without the body."""

    url: str
    """The URL after all redirects."""
    media_type: str
    """Such as `text/html`, or empty if the server does not send it."""
    charset: str
    """The charset of the server's header, or empty."""


def read_page(url: str, form: str, settings: WebSettings, deadline: Deadline) -> tuple[str, str]:
    """Return the title and the content of a page.

    Args:
        url: Begins with http:// or https://.
        form: `markdown`, `text` or `html`.
        settings: Limits, and the allow list of hosts and networks that are not public.
        deadline: Ends the work.

    Raises:
        PageError: The page cannot be read, or is refused.
        DeadlineError: The time is up.
        ToolInterruptedError: The caller's scope was cancelled.
    """
    most = settings.extract_char_limit
    try:
        with tempfile.TemporaryFile() as body:  # not in memory, which many calls at once would fill
            page = _fetch(url, body, settings, deadline)
            kind = _kind(body, page.media_type)
            if kind == "pdf" or (kind == "html" and form != "html"):
                charsets = _charsets(body, page.charset)
                title, text = convert(kind, body, page.url, charsets, form == "markdown", most, deadline)
            else:
                title, text = "", _beginning(body, page.charset, most)
    except (AddressRefusedError, LookupFailedError, BodyError, ConversionError) as error:
        raise PageError(str(error)) from error
    except OSError as error:
        raise PageError(f"the page could not be stored for reading: {error.strerror}") from error
    if len(text) > most:
        text = f"{text[:most]}\n\n[cut: the page has more than these {most:,} characters]"
    return title, text


def _fetch(url: str, body: BinaryIO, settings: WebSettings, deadline: Deadline) -> _Fetched:
    """Fetch a page. The unpacked body goes to the file `body`."""
    with http_client(deadline, AddressRules(settings.allow_private), settings.user_agent) as client:
        place = _check_url(url)
        for _ in range(_MAX_REDIRECTS + 1):
            try:
                found = _get(client, place, body, settings.max_bytes)
            except httpx.HTTPError as error:
                raise PageError(f"{place.host}: {error}") from error
            if isinstance(found, _Fetched):
                return found
            place = _check_url(found)
    raise PageError(f"more than {_MAX_REDIRECTS} redirects")


def _check_url(url: str | httpx.URL) -> httpx.URL:
    if len(str(url)) > _LONGEST_URL:
        raise PageError(f"the URL is longer than {_LONGEST_URL:,} characters")
    try:
        place = httpx.URL(url)
    except (httpx.InvalidURL, UnicodeError) as error:
        raise PageError(f"this is no URL: {error}") from None
    if place.scheme not in ("http", "https") or not place.host:
        raise PageError(f"only http:// and https:// URLs are read, and this is {str(place)!r:.200}")
    if place.userinfo:
        raise PageError("the URL holds a user or password, which is not sent; leave it out")
    return place


def _get(client: httpx.Client, place: httpx.URL, body: BinaryIO, most_bytes: int) -> _Fetched | httpx.URL:
    """Fetch a page, or return the URL of a redirect."""
    headers = {"Accept": _ACCEPT, "Accept-Encoding": ACCEPTED}
    with client.stream("GET", place, headers=headers) as answer:
        if answer.has_redirect_location:
            try:
                return place.join(answer.headers["Location"])
            except (httpx.InvalidURL, UnicodeError) as error:
                raise PageError(f"the redirect target is not a URL: {error}") from None
        if not answer.is_success:
            raise PageError(f"{place.host} answered {status(answer.status_code)}")
        for piece in body_of(answer, most_bytes, "web.max_bytes"):
            body.write(piece)
        body.flush()
        media_type = answer.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        return _Fetched(str(place), media_type, answer.charset_encoding or "")


def _kind(body: BinaryIO, media_type: str) -> Literal["html", "pdf", "text"]:
    """Return the type of a page by the server's header, or else by the beginning of the body."""
    head = _head(body)
    if media_type in _PDF or (media_type in _UNKNOWN and head.startswith(b"%PDF-")):
        return "pdf"
    if media_type in _HTML:
        return "html"
    is_text = media_type.startswith("text/") or media_type in _TEXT or media_type.endswith(("+json", "+xml"))
    has_text = b"\0" not in head or any(head.startswith(mark) for mark, _ in _MARKS)
    if not (is_text or media_type in _UNKNOWN) or not has_text:
        raise PageError(f"the content is no page, text or PDF, but {media_type or 'something else'!r:.100}")
    start = head.lstrip().lower()
    return "html" if not is_text and start.startswith((b"<!doctype html", b"<html")) else "text"


def _head(body: BinaryIO) -> bytes:
    body.seek(0)
    return body.read(_HEAD)


def _beginning(body: BinaryIO, charset: str, most_characters: int) -> str:
    """Decode the beginning of a body: more characters than wanted, if there are any."""
    body.seek(0)
    data = body.read((most_characters + 1) * _BYTES_PER_CHARACTER)
    at_end = not body.read(1)
    for mark, name in _MARKS:
        if data.startswith(mark):
            return _decode(data[len(mark) :], name, at_end, "replace")
    for name in (*_charsets(body, charset), "utf-8"):
        try:
            return _decode(data, name, at_end, "strict")
        except ValueError:  # the body contradicts its server
            continue
    return _decode(data, "cp1252", at_end, "replace")


def _charsets(body: BinaryIO, charset: str) -> list[str]:
    """Return the possible charsets of a page: from the server's header and from the page."""
    found = _META.search(_head(body))
    return [name for name in (charset, found[1].decode() if found else "") if _is_charset(name)]


def _is_charset(name: str) -> bool:
    try:
        known = codecs.lookup(name).name
        b"text".decode(name, "replace")  # refuses codecs of bytes, such as zlib
    except (LookupError, ValueError):
        return False
    return known not in _NO_CHARSETS


def _decode(data: bytes, charset: str, at_end: bool, errors: str) -> str:
    """Decode text with a possibly incomplete character at the end."""
    return codecs.getincrementaldecoder(charset)(errors).decode(data, at_end)
