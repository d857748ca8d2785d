"""Searching by `ddgs`, which asks public search pages and needs no key; they may refuse whoever asks too often."""

from __future__ import annotations

from hermes_tools.web.deadline import Deadline
from hermes_tools.web.extra import require_extra
from hermes_tools.web.providers.base import SearchError, SearchHit, hits
from hermes_tools.web.settings import WebSettings

_ENGINE_SECONDS = 10
"""How long one of the search pages is waited for."""


class DuckDuckGo:
    """Asks by the library's own client, which cannot be ended: it is left alone when the time is up."""

    def search(self, query: str, limit: int, settings: WebSettings, deadline: Deadline) -> list[SearchHit]:
        """Return the pages that fit best. As `SearchProvider.search`."""
        require_extra("web.search_provider ddgs", "ddgs")
        return hits(deadline.abandoning(lambda: _found(query, limit)), limit, url="href", description="body")


def _found(query: str, limit: int) -> object:
    from ddgs import DDGS

    try:
        return DDGS(timeout=_ENGINE_SECONDS).text(query, max_results=limit)
    except Exception as error:  # it reads pages that may be anything
        raise SearchError(f"ddgs could not search: {type(error).__name__}: {str(error)[:300]}") from error
