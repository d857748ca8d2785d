"""Searching by a SearXNG, which everyone can run."""

from __future__ import annotations

from hermes_tools.web.deadline import Deadline
from hermes_tools.web.providers.base import SearchError, SearchHit, ask, hits, place
from hermes_tools.web.settings import WebSettings

_ADVICE = {
    403: "it may not allow JSON; add json to search.formats in its settings.yml",
    404: "there is no SearXNG at web.searxng_url",
}


class SearXNG:
    """Asks `/search`."""

    def search(self, query: str, limit: int, settings: WebSettings, deadline: Deadline) -> list[SearchHit]:
        """Return the pages that fit best. As `SearchProvider.search`."""
        if not settings.searxng_url:
            raise SearchError("web.search_provider is searxng, which needs its address: set SEARXNG_URL")
        url = place(settings.searxng_url, "/search")
        if not url.startswith(("http://", "https://")):
            raise SearchError("SEARXNG_URL should begin with http:// or https://")
        params = {"q": query, "format": "json"}
        answer = ask("GET", url, settings, deadline, name="SearXNG", advice=_ADVICE, params=params)
        return hits(answer.get("results"), limit, description="content")
