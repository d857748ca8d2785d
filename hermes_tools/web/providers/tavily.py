"""Searching by Tavily's API."""

from __future__ import annotations

from hermes_tools.web.deadline import Deadline
from hermes_tools.web.providers.base import SearchHit, ask, hits, key_of, place
from hermes_tools.web.settings import WebSettings

KEY = "TAVILY_API_KEY"
_ADVICE = {401: f"look at {KEY}", 403: f"look at {KEY}", 432: "the limit of your plan is reached"}


class Tavily:
    """Asks `/search`."""

    def search(self, query: str, limit: int, settings: WebSettings, deadline: Deadline) -> list[SearchHit]:
        """Return the pages that fit best. As `SearchProvider.search`."""
        key = key_of("tavily", KEY)
        answer = ask(
            "POST",
            place(settings.tavily_url, "/search"),
            settings,
            deadline,
            name="Tavily",
            advice=_ADVICE,
            headers={"Authorization": f"Bearer {key}"},
            body={"query": query, "max_results": limit},
        )
        return hits(answer.get("results"), limit, description="content")
