"""What a search provider is, and how one that is asked over HTTP answers."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from http import HTTPStatus
from typing import Protocol, TypedDict

from hermes_tools.web.deadline import Deadline
from hermes_tools.web.settings import WebSettings

_MOST_BYTES = 5_000_000
_LONGEST_TITLE, _LONGEST_DESCRIPTION, _LONGEST_URL = 500, 2000, 8000


class SearchHit(TypedDict):
    """One page that was found."""

    title: str
    url: str
    description: str
    position: int
    """Counted from 1."""


class SearchError(Exception):
    """The search could not be done. The message is for the caller, and holds no key."""


def key_of(provider: str, variable: str) -> str:
    """Return the key of a provider.

    Args:
        provider: Its name in `web.search_provider`.
        variable: Where the key is.

    Raises:
        SearchError: There is none.
    """
    key = os.environ.get(variable, "").strip()
    if not key:
        raise SearchError(f"web.search_provider is {provider}, which needs a key: set {variable}")
    return key


class SearchProvider(Protocol):
    """Finds pages."""

    def search(self, query: str, limit: int, settings: WebSettings, deadline: Deadline) -> list[SearchHit]:
        """Return the pages that fit best, the best first.

        Args:
            query: What is looked for.
            limit: How many at most.
            settings: Where to ask, and the bounds.
            deadline: Ends it.

        Raises:
            SearchError: It could not be done.
            OutOfTimeError: The time is up.
            ToolInterruptedError: Nobody waits any more.
        """


def hits(found: object, limit: int, *, url: str = "url", description: str) -> list[SearchHit]:
    """Make results of what a provider has found.

    Args:
        found: A list of mappings. What is none, or has no URL of a page, is left out.
        limit: How many at most.
        url: The key of the URL in each.
        description: The key of what the page says.

    Raises:
        SearchError: It is no list.
    """
    if not isinstance(found, list):
        raise SearchError("the search provider answered with something else than a list of results")
    pages = [page for page in found if isinstance(page, Mapping) and _is_page(page.get(url))]
    return [
        SearchHit(
            title=_line(page.get("title"), _LONGEST_TITLE) or str(page[url]),
            url=str(page[url]),
            description=_line(page.get(description), _LONGEST_DESCRIPTION),
            position=position,
        )
        for position, page in enumerate(pages[:limit], 1)
    ]


def ask(
    method: str,
    url: str,
    settings: WebSettings,
    deadline: Deadline,
    *,
    name: str,
    advice: Mapping[int, str],
    headers: Mapping[str, str] | None = None,
    params: Mapping[str, str] | None = None,
    body: object = None,
) -> dict[str, object]:
    """Ask a provider over HTTP, and return its JSON. The place is the user's own choice, and may be private.

    Args:
        method: Of HTTP.
        url: Where to ask.
        settings: Who we are.
        deadline: Ends it.
        name: What the provider is called in errors.
        advice: What to do about some status codes.
        headers: May hold a key, which is sent nowhere else: redirects are not followed.
        params: Go into the URL.
        body: Is sent as JSON.

    Raises:
        SearchError: It cannot be reached, or does not answer as it should.
        OutOfTimeError: The time is up.
        ToolInterruptedError: Nobody waits any more.
    """
    import httpx

    from hermes_tools.web.addresses import LookupFailedError
    from hermes_tools.web.client import http_client
    from hermes_tools.web.decoding import ACCEPTED, BodyError, unpacked

    sent = {"Accept": "application/json", "Accept-Encoding": ACCEPTED, **(headers or {})}
    try:
        with (
            http_client(deadline, None, settings.user_agent) as client,
            client.stream(method, url, headers=sent, params=params, json=body) as answer,
        ):
            if not answer.is_success:
                raise SearchError(f"{name} answered {_status(answer.status_code, advice)}")
            raw = unpacked(answer.iter_raw(), answer.headers.get("Content-Encoding", ""), _MOST_BYTES)
            return _mapping(b"".join(raw), name)
    except (httpx.HTTPError, LookupFailedError, BodyError) as error:
        raise SearchError(f"{name} could not be asked: {error}") from error
    except (httpx.InvalidURL, UnicodeError) as error:
        raise SearchError(f"{name} could not be asked: its URL or key is not in order") from error


def place(url: str, path: str) -> str:
    """Return the address of something at a provider."""
    return url.rstrip("/") + path


def _status(code: int, advice: Mapping[int, str]) -> str:
    from hermes_tools.web.client import status

    what_to_do = advice.get(code)
    if code == HTTPStatus.TOO_MANY_REQUESTS:
        what_to_do = what_to_do or "its limit of searches is reached: try again later"
    return status(code) + (f": {what_to_do}" if what_to_do else "")


def _mapping(data: bytes, name: str) -> dict[str, object]:
    try:
        answer = json.loads(data)
    except (ValueError, RecursionError):
        raise SearchError(f"{name} did not answer with JSON") from None
    if not isinstance(answer, dict):
        raise SearchError(f"{name} answered with something else than search results")
    return answer


def _is_page(url: object) -> bool:
    return isinstance(url, str) and url.startswith(("http://", "https://")) and len(url) <= _LONGEST_URL


def _line(text: object, most: int) -> str:
    line = " ".join(text[: 4 * most].split()) if isinstance(text, str) else ""
    return line if len(line) <= most else line[: most - 1] + "\N{HORIZONTAL ELLIPSIS}"
