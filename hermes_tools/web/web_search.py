"""Search the web: by a table of providers with an HTTP API, their keys and rate limits, or by `ddgs` without a key."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from html import unescape
from http import HTTPStatus
from typing import NotRequired, TypedDict

from environments.base import BaseEnvironment
from environments.errors import TerminalError
from environments.extras import require_libraries
from hermes_tools.interruption import Deadline, DeadlineError, ToolInterruptedError
from hermes_tools.web.settings import ProviderName, WebSettings, load_web_settings, variable

_MAX_RESULTS = 20
"""Limit of results of a call, within the limits of all providers."""
_LONGEST_QUERY = 2000
_MAX_BYTES = 5_000_000
_LONGEST_TITLE, _LONGEST_DESCRIPTION, _LONGEST_URL = 500, 2000, 8000
_DDGS_SECONDS = 10
"""The time-out of each search engine used by `ddgs`."""
_TAG = re.compile(r"</?[a-z]{1,10}>")


class SearchHit(TypedDict):
    """A page in the results."""

    title: str
    url: str
    description: str
    position: int
    """Counted from 1."""


class WebSearchData(TypedDict):
    """The results."""

    web: list[SearchHit]


class WebSearchResult(TypedDict):
    """The result of `web_search`: `error` alone if it failed."""

    data: NotRequired[WebSearchData]
    error: NotRequired[str]


def web_search(env: BaseEnvironment, query: str, limit: int = 5) -> WebSearchResult:
    """Search the web for pages. `web_extract` reads them.

    Args:
        query: The query, as for a search engine.
        limit: Results to return at most, up to 20.

    Returns:
        A dict with data, which has web: a list of results, the best first, with title, url, description and position
        (from 1). If no provider is configured, or the search fails, a dict with error alone.

    Raises:
        ValueError: The query is empty or over 2,000 characters, or limit is below 1.
    """
    if limit < 1:
        raise ValueError(f"limit is {limit}; give at least 1")
    if not query.strip() or len(query) > _LONGEST_QUERY:
        raise ValueError(f"query has {len(query.strip()):,} characters; give 1 to {_LONGEST_QUERY:,}")
    try:
        settings = load_web_settings()
        found = _search(query.strip(), min(limit, _MAX_RESULTS), settings, Deadline(settings.timeout))
    except (WebSearchError, DeadlineError, ToolInterruptedError, TerminalError) as error:
        return {"error": str(error)}
    return {"data": {"web": found}}


class WebSearchError(Exception):
    """The search failed. The message is for the caller, and holds no key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Api:
    """The HTTP API of a provider."""

    title: str
    """The name in errors."""
    url: Callable[[WebSettings], str | None]
    path: str
    key: str = ""
    """The environment variable with the key; empty without a key."""
    headers: Callable[[str], Mapping[str, str]] = lambda key: {}
    """The headers with the key."""
    params: Callable[[str, int], Mapping[str, str]] | None = None
    """The parameters of a GET request, from the query and the number of results."""
    body: Callable[[str, int], object] | None = None
    """The JSON of a POST request, from the same."""
    results: Callable[[Mapping[str, object]], object]
    """Returns the list of results in an answer."""
    description: str
    """The key of the description, in a result."""
    advice: Mapping[int, str] = field(default_factory=dict)
    """Advice in errors, by status code."""
    most_characters: int = 2000
    most_words: int = 2000
    has_html: bool = False
    """Titles and descriptions are HTML."""


def _results(answer: Mapping[str, object]) -> object:
    return answer.get("results")


def _results_of_web(answer: Mapping[str, object]) -> object:
    web = answer.get("web")
    return web.get("results") if isinstance(web, Mapping) else []


_APIS: Mapping[ProviderName, _Api] = {
    "searxng": _Api(
        title="SearXNG",
        url=lambda settings: settings.searxng_url,
        path="/search",
        params=lambda query, limit: {"q": query, "format": "json"},
        results=_results,
        description="content",
        advice={
            403: "it may not allow JSON; add json to search.formats in its settings.yml",
            404: "there is no SearXNG at web.searxng_url",
        },
    ),
    "brave": _Api(
        title="Brave",
        url=lambda settings: settings.brave_url,
        path="/res/v1/web/search",
        key="BRAVE_SEARCH_API_KEY",
        headers=lambda key: {"X-Subscription-Token": key},
        params=lambda query, limit: {"q": query, "count": str(limit), "text_decorations": "false"},
        results=_results_of_web,
        description="description",
        advice=dict.fromkeys((401, 403, 422), "look at BRAVE_SEARCH_API_KEY"),
        most_characters=400,
        most_words=50,
        has_html=True,
    ),
    "tavily": _Api(
        title="Tavily",
        url=lambda settings: settings.tavily_url,
        path="/search",
        key="TAVILY_API_KEY",
        headers=lambda key: {"Authorization": f"Bearer {key}"},
        body=lambda query, limit: {"query": query, "max_results": limit},
        results=_results,
        description="content",
        advice={
            **dict.fromkeys((401, 403), "look at TAVILY_API_KEY"),
            432: "the limit of your plan is reached",
        },
    ),
}
"""The providers in order of preference."""


def _search(query: str, limit: int, settings: WebSettings, deadline: Deadline) -> list[SearchHit]:
    """Ask the configured provider, or the first with a URL or key.

    Raises:
        WebSearchError: The search failed, or no provider is configured.
        MissingExtraError: A library is missing.
        DeadlineError: The time is up.
        ToolInterruptedError: The caller's scope was cancelled.
    """
    name = settings.search_provider or _first_configured(settings)
    if name == "ddgs":
        require_libraries("web.search_provider ddgs", "ddgs", "ddgs")
        found = deadline.run_abandonable(lambda: _search_ddgs(query, limit))
        return _hits(found, limit, url="href", description="body")
    require_libraries("web_search", "web", "httpx")
    api = _APIS[name]
    found = api.results(_ask(name, api, query, limit, settings, deadline))
    return _hits(found, limit, url="url", description=api.description, has_html=api.has_html)


def _first_configured(settings: WebSettings) -> ProviderName:
    for name, api in _APIS.items():
        if os.environ.get(api.key) if api.key else api.url(settings):
            return name
    keys = " or ".join(api.key for api in _APIS.values() if api.key)
    raise WebSearchError(
        f"no search provider is configured: set SEARXNG_URL, {keys}, or WEB_SEARCH_PROVIDER=ddgs, which needs no key"
    )


def _search_ddgs(query: str, limit: int) -> object:
    from ddgs import DDGS

    try:
        return DDGS(timeout=_DDGS_SECONDS).text(query, max_results=limit)
    except Exception as error:  # any that a page can cause in a library
        raise WebSearchError(f"ddgs could not search: {type(error).__name__}: {str(error)[:300]}") from error


def _ask(
    name: ProviderName, api: _Api, query: str, limit: int, settings: WebSettings, deadline: Deadline
) -> Mapping[str, object]:
    """Return a provider's answer in JSON. The host is the user's choice, and may be private."""
    import httpx

    from hermes_tools.web.client import ACCEPTED, BodyError, body_of, http_client
    from hermes_tools.web.network import LookupFailedError

    key = os.environ.get(api.key, "").strip() if api.key else ""
    if api.key and not key:
        raise WebSearchError(f"web.search_provider is {name}, which needs a key: set {api.key}")
    url = api.url(settings)
    if not url:
        raise WebSearchError("web.search_provider is searxng, which needs its address: set SEARXNG_URL")
    if not url.startswith(("http://", "https://")):
        raise WebSearchError(f"{variable(f'{name}_url')} should begin with http:// or https://")
    if len(query) > api.most_characters or len(query.split()) > api.most_words:
        raise WebSearchError(
            f"{api.title} takes at most {api.most_characters} characters and {api.most_words} words: shorten it"
        )
    try:
        with (
            http_client(deadline, None, settings.user_agent) as client,
            client.stream(
                "POST" if api.body else "GET",
                url.rstrip("/") + api.path,
                headers={"Accept": "application/json", "Accept-Encoding": ACCEPTED, **api.headers(key)},
                params=api.params(query, limit) if api.params else None,
                json=api.body(query, limit) if api.body else None,
            ) as answer,
        ):
            if not answer.is_success:
                raise WebSearchError(f"{api.title} answered {_status(answer.status_code, api.advice)}")
            return _mapping(b"".join(body_of(answer, _MAX_BYTES)), api.title)
    except (httpx.HTTPError, LookupFailedError, BodyError) as error:
        raise WebSearchError(f"{api.title} could not be asked: {error}") from error
    except (httpx.InvalidURL, UnicodeError) as error:
        raise WebSearchError(f"{api.title} could not be asked: its URL or key is not in order") from error


def _status(code: int, advice: Mapping[int, str]) -> str:
    from hermes_tools.web.client import status

    what_to_do = advice.get(code)
    if code == HTTPStatus.TOO_MANY_REQUESTS:
        what_to_do = what_to_do or "its rate limit is reached: try again later"
    return status(code) + (f": {what_to_do}" if what_to_do else "")


def _mapping(data: bytes, title: str) -> Mapping[str, object]:
    try:
        answer = json.loads(data)
    except (ValueError, RecursionError):
        raise WebSearchError(f"{title} did not answer with JSON") from None
    if not isinstance(answer, dict):
        raise WebSearchError(f"{title} did not answer with search results")
    return answer


def _hits(found: object, limit: int, *, url: str, description: str, has_html: bool = False) -> list[SearchHit]:
    """Return the pages in a provider's results. Entries without a page's URL are left out."""
    if not isinstance(found, list):
        raise WebSearchError("the search provider did not answer with a list of results")
    pages = [page for page in found if isinstance(page, Mapping) and _is_page(page.get(url))]
    return [
        SearchHit(
            title=_line(page.get("title"), _LONGEST_TITLE, has_html) or str(page[url]),
            url=str(page[url]),
            description=_line(page.get(description), _LONGEST_DESCRIPTION, has_html),
            position=position,
        )
        for position, page in enumerate(pages[:limit], 1)
    ]


def _is_page(url: object) -> bool:
    return isinstance(url, str) and url.startswith(("http://", "https://")) and len(url) <= _LONGEST_URL


def _line(text: object, most: int, has_html: bool) -> str:
    line = text[: 4 * most] if isinstance(text, str) else ""
    line = " ".join((unescape(_TAG.sub("", line)) if has_html else line).split())
    return line if len(line) <= most else line[: most - 1] + "\N{HORIZONTAL ELLIPSIS}"
