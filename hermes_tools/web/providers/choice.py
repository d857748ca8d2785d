"""Which provider is asked."""

from __future__ import annotations

import os

from hermes_tools.web.providers import brave, tavily
from hermes_tools.web.providers.base import SearchError, SearchProvider
from hermes_tools.web.providers.duckduckgo import DuckDuckGo
from hermes_tools.web.providers.searxng import SearXNG
from hermes_tools.web.settings import ProviderName, WebSettings

_PROVIDERS: dict[ProviderName, type[SearchProvider]] = {
    "searxng": SearXNG,
    "brave": brave.Brave,
    "tavily": tavily.Tavily,
    "ddgs": DuckDuckGo,
}


def chosen_provider(settings: WebSettings) -> SearchProvider:
    """Return the provider that the settings name, or else the first that has its URL or key.

    Raises:
        SearchError: There is none. It says what to set.
    """
    if settings.search_provider:
        return _PROVIDERS[settings.search_provider]()
    if settings.searxng_url:
        return SearXNG()
    if os.environ.get(brave.KEY):
        return brave.Brave()
    if os.environ.get(tavily.KEY):
        return tavily.Tavily()
    raise SearchError(
        f"no search provider is configured: set SEARXNG_URL, {brave.KEY} or {tavily.KEY}, or "
        "WEB_SEARCH_PROVIDER=ddgs, which needs no key"
    )
