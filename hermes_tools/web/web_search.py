"""Search the web."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from environments.base import BaseEnvironment
from environments.errors import TerminalError
from hermes_tools.interruption import ToolInterruptedError
from hermes_tools.web.deadline import Deadline, OutOfTimeError
from hermes_tools.web.extra import require_extra
from hermes_tools.web.providers.base import SearchError, SearchHit
from hermes_tools.web.providers.choice import chosen_provider
from hermes_tools.web.settings import load_web_settings

_MOST_RESULTS = 20
"""What all providers can give at once."""
_LONGEST_QUERY = 2000


class WebSearchData(TypedDict):
    """What was found."""

    web: list[SearchHit]


class WebSearchResult(TypedDict):
    """What `web_search` returns. Only `error` is there when it failed."""

    data: NotRequired[WebSearchData]
    error: NotRequired[str]


def web_search(env: BaseEnvironment, query: str, limit: int = 5) -> WebSearchResult:
    """Search the web for pages. `web_extract` reads them.

    Args:
        query: What to look for, as one would type it into a search engine.
        limit: Most results to return; 20 are.

    Returns:
        A dict with data, which has web: a list of results, the best first, with title, url, description and position
        (from 1). Nothing configured to search with, and a search that fails, give a dict with error alone.

    Raises:
        ValueError: The query is empty or over 2,000 characters, or limit is below 1.
    """
    if limit < 1:
        raise ValueError(f"limit is {limit}; give at least 1")
    if not query.strip() or len(query) > _LONGEST_QUERY:
        raise ValueError(f"query has {len(query.strip()):,} characters; give 1 to {_LONGEST_QUERY:,}")
    try:
        settings = load_web_settings()
        provider = chosen_provider(settings)
        require_extra("web_search", "httpx")
        found = provider.search(query.strip(), min(limit, _MOST_RESULTS), settings, Deadline(settings.timeout))
    except (SearchError, OutOfTimeError, ToolInterruptedError, TerminalError) as error:
        return {"error": str(error)}
    return {"data": {"web": found}}
