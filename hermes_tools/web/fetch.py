"""Fetching one page: every place that it leads to is checked, and its body goes to a file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import BinaryIO

import httpx

from hermes_tools.web.addresses import AddressRefusedError, AddressRules, LookupFailedError
from hermes_tools.web.client import http_client, status
from hermes_tools.web.deadline import Deadline
from hermes_tools.web.decoding import ACCEPTED, BodyError, too_large, unpacked
from hermes_tools.web.settings import WebSettings

MOST_REDIRECTS = 10
_LONGEST_URL = 8000
_ACCEPT = "text/html,application/xhtml+xml,application/pdf,text/*;q=0.9,application/json;q=0.9,*/*;q=0.5"


class FetchError(Exception):
    """The page could not be fetched. The message is for the caller."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """What is known of a page beside its body."""

    url: str
    """Where it was found in the end."""
    media_type: str
    """Such as `text/html`, or nothing if the server does not say."""
    charset: str
    """As the server says, or nothing."""


def fetch(url: str, body: BinaryIO, settings: WebSettings, deadline: Deadline) -> Fetched:
    """Fetch a page.

    Args:
        url: Begins with http:// or https://.
        body: Gets its body, unpacked.
        settings: Bounds, and the places that are allowed although they are not public.
        deadline: Ends it.

    Raises:
        FetchError: It cannot be had, or is not to be had.
        OutOfTimeError: The time is up.
        ToolInterruptedError: Nobody waits any more.
    """
    with http_client(deadline, AddressRules(settings.allow_private), settings.user_agent) as client:
        place = _checked(url)
        try:
            for _ in range(MOST_REDIRECTS + 1):
                found = _get(client, place, body, settings.max_bytes)
                if isinstance(found, Fetched):
                    return found
                place = _checked(found)
        except (AddressRefusedError, LookupFailedError, BodyError) as error:
            raise FetchError(str(error)) from error
        except httpx.HTTPError as error:
            raise FetchError(f"{place.host}: {error}") from error
    raise FetchError(f"more than {MOST_REDIRECTS} redirects")


def _checked(url: str | httpx.URL) -> httpx.URL:
    if len(str(url)) > _LONGEST_URL:
        raise FetchError(f"the URL is longer than {_LONGEST_URL:,} characters")
    try:
        place = httpx.URL(url)
    except (httpx.InvalidURL, UnicodeError) as error:
        raise FetchError(f"this is no URL: {error}") from None
    if place.scheme not in ("http", "https") or not place.host:
        raise FetchError(f"only http:// and https:// URLs are read, and this is {str(place)!r:.200}")
    if place.userinfo:
        raise FetchError("the URL holds a user or password, which is not sent; leave it out")
    return place


def _get(client: httpx.Client, place: httpx.URL, body: BinaryIO, most_bytes: int) -> Fetched | httpx.URL:
    """Fetch a page, or return where it is instead."""
    headers = {"Accept": _ACCEPT, "Accept-Encoding": ACCEPTED}
    with client.stream("GET", place, headers=headers) as answer:
        if answer.has_redirect_location:
            return _joined(place, answer.headers["Location"])
        if not answer.is_success:
            raise FetchError(f"{place.host} answered {status(answer.status_code)}")
        if _announced(answer) > most_bytes:
            raise too_large(most_bytes)
        for piece in unpacked(answer.iter_raw(), answer.headers.get("Content-Encoding", ""), most_bytes):
            body.write(piece)
        body.flush()
        media_type = answer.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        return Fetched(str(place), media_type, answer.charset_encoding or "")


def _joined(place: httpx.URL, location: str) -> httpx.URL:
    try:
        return place.join(location)
    except (httpx.InvalidURL, UnicodeError) as error:
        raise FetchError(f"it redirects to what is no URL: {error}") from None


def _announced(answer: httpx.Response) -> int:
    length = answer.headers.get("Content-Length", "")
    return int(length) if length.isascii() and length.isdigit() and len(length) < 20 else 0
