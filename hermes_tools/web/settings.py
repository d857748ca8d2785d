"""Settings of the web tools: the section `web:` of config.yaml, and the variables over it."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from ipaddress import ip_network
from typing import TYPE_CHECKING, Literal

from environments.errors import SettingsError
from environments.sources import config_layer
from environments.validation import Given, setting_names, validated

if TYPE_CHECKING:
    from pydantic import PositiveFloat, PositiveInt

ProviderName = Literal["searxng", "brave", "tavily", "ddgs"]

SECTION = "web"
_HOST = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class WebSettings:
    """The search provider, and limits for pages."""

    search_provider: ProviderName | None = None
    """Search provider: `searxng`, `brave`, `tavily` or `ddgs`; if not set, the first with a URL or key. `ddgs` needs
    its extra."""
    searxng_url: str | None = None
    """URL of your SearXNG, whose settings must allow the format `json`. Variable `SEARXNG_URL`."""
    brave_url: str = "https://api.search.brave.com"
    """URL of Brave's search API."""
    tavily_url: str = "https://api.tavily.com"
    """URL of Tavily's API."""
    allow_private: tuple[str, ...] = ()
    """Hosts and networks, such as `10.1.0.0/16`, that pages may come from although they are not public."""
    timeout: PositiveFloat = 30.0
    """Seconds that a call may take."""
    max_bytes: PositiveInt = 10_000_000
    """Bytes of an unpacked page; a larger page is an error."""
    extract_char_limit: PositiveInt = 100_000
    """Characters of a page that are returned."""
    user_agent: str = "Mozilla/5.0 (compatible; hermes-environments)"
    """User-Agent header of all requests."""

    def __post_init__(self) -> None:
        for entry in self.allow_private:
            if not _is_host_or_network(entry):
                raise SettingsError(
                    f"web.allow_private: {entry!r:.100} is neither a host nor a network, such as intranet.example or "
                    "10.1.0.0/16; leave out scheme and port"
                )


def load_web_settings() -> WebSettings:
    """Read the settings: the defaults, over them config.yaml, over both the variables.

    Raises:
        SettingsError: A key is unknown or a value is not allowed.
    """
    return validated(WebSettings, config_layer(SECTION), _variable_layer())


def variable(name: str) -> str:
    """Return the variable of a setting."""
    return "SEARXNG_URL" if name == "searxng_url" else f"WEB_{name.upper()}"


def _variable_layer() -> dict[str, Given]:
    found = {name: os.environ.get(variable(name), "") for name in setting_names(WebSettings)}
    return {
        name: Given(_listed(text) if name == "allow_private" else text, f"variable {variable(name)}")
        for name, text in found.items()
        if text.strip()
    }


def _listed(text: str) -> object:
    """Read a list in JSON, or with commas."""
    if text.lstrip().startswith("["):
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            raise SettingsError(
                'variable WEB_ALLOW_PRIVATE: it should be a list, such as ["10.1.0.0/16"], or words with commas'
            ) from None
    return [word.strip() for word in text.split(",") if word.strip()]


def _is_host_or_network(entry: str) -> bool:
    try:
        ip_network(entry.strip("[]"), strict=False)
    except ValueError:
        return bool(_HOST.fullmatch(entry.lower().rstrip(".")))
    return True
