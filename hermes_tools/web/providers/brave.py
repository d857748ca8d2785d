"""Searching by Brave's API."""

from __future__ import annotations

import re
from html import unescape

from hermes_tools.web.deadline import Deadline
from hermes_tools.web.providers.base import SearchError, SearchHit, ask, hits, key_of, place
from hermes_tools.web.settings import WebSettings

KEY = "BRAVE_SEARCH_API_KEY"
_ADVICE = dict.fromkeys((401, 403, 422), f"look at {KEY}")
_MOST_CHARACTERS, _MOST_WORDS = 400, 50
_TAG = re.compile(r"</?[a-z]{1,10}>")


class Brave:
    """Asks `/res/v1/web/search`."""

    def search(self, query: str, limit: int, settings: WebSettings, deadline: Deadline) -> list[SearchHit]:
        """Return the pages that fit best. As `SearchProvider.search`."""
        key = key_of("brave", KEY)
        if len(query) > _MOST_CHARACTERS or len(query.split()) > _MOST_WORDS:
            raise SearchError(f"Brave takes at most {_MOST_CHARACTERS} characters and {_MOST_WORDS} words: shorten it")
        answer = ask(
            "GET",
            place(settings.brave_url, "/res/v1/web/search"),
            settings,
            deadline,
            name="Brave",
            advice=_ADVICE,
            headers={"X-Subscription-Token": key},
            params={"q": query, "count": str(limit), "text_decorations": "false"},
        )
        web = answer.get("web")
        found = hits(web.get("results") if isinstance(web, dict) else [], limit, description="description")
        return [{**hit, "title": _plain(hit["title"]), "description": _plain(hit["description"])} for hit in found]


def _plain(text: str) -> str:
    """Return what Brave writes as HTML as the text it is."""
    return " ".join(unescape(_TAG.sub("", text)).split())
