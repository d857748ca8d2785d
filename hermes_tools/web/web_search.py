"""Search the web."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from environments.base import BaseEnvironment
from environments.errors import TerminalError
from hermes_tools.interruption import ToolInterruptedError
from hermes_tools.web.deadline import Deadline, OutOfTimeError
from hermes_tools.web.providers import SearchError, SearchHit, search
from hermes_tools.web.settings import load_web_settings

_MOST_RESULTS = 20
"""The most that all providers return at once."""
_LONGEST_QUERY = 2000


class WebSearchData(TypedDict):
    """The pages that were found."""

    web: list[SearchHit]


class WebSearchResult(TypedDict):
    """The result of `web_search`: `error` alone if it failed."""

    data: NotRequired[WebSearchData]
    error: NotRequired[str]


def web_search(env: BaseEnvironment, query: str, limit: int = 5) -> WebSearchResult:
    """Search the web for pages. `web_extract` reads them.

    Args:
        query: The query, as for a search engine.
        limit: Most results to return, 20 at most.

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
        found = search(query.strip(), min(limit, _MOST_RESULTS), settings, Deadline(settings.timeout))
    except (SearchError, OutOfTimeError, ToolInterruptedError, TerminalError) as error:
        return {"error": str(error)}
    return {"data": {"web": found}}
