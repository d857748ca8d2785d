"""Read pages of the web as text."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Literal, NotRequired, TypedDict

from environments.base import BaseEnvironment
from environments.errors import TerminalError
from environments.extras import require_libraries
from hermes_tools.interruption import Deadline, DeadlineError, ToolInterruptedError
from hermes_tools.web.settings import WebSettings, load_web_settings

_MAX_PAGES = 5
_FORMATS = ("markdown", "text", "html")
_CALLS = threading.BoundedSemaphore(8)
"""Limits the calls that read pages at once; others wait."""


class PageResult(TypedDict):
    """A page. Where `error` is not None, title and content are empty."""

    url: str
    title: str
    content: str
    error: str | None


class WebExtractResult(TypedDict):
    """The result of `web_extract`: `error` alone if no page was read at all."""

    results: NotRequired[list[PageResult]]
    error: NotRequired[str]


def web_extract(
    env: BaseEnvironment, urls: list[str], format: Literal["markdown", "text", "html"] = "markdown"
) -> WebExtractResult:
    """Read the text of web pages and PDFs, at most 5 at once.

    Pages are fetched from this machine, not from the environment. Only public hosts are allowed, unless the setting
    `web.allow_private` names the host or network.

    Args:
        urls: Addresses of the pages, each with http:// or https://.
        format: "markdown" or "text" for the main part of a page, with or without links and headings; "html" for the
            source of the page. A PDF is text in any case; plain text and JSON are given as they are.

    Returns:
        A dict with results, in the order of urls: url, title, content, and error: None, or the reason why the page
        could not be read. Content over 100,000 characters is cut, with a note at its end. More than 5 URLs or a missing
        library give a dict with error alone.

    Raises:
        ValueError: There are no URLs, or format is unknown.
    """
    if format not in _FORMATS:
        raise ValueError(f"format is 'markdown', 'text' or 'html', not {format!r:.100}")
    wanted = [urls] if isinstance(urls, str) else list(urls)
    if not wanted:
        raise ValueError("urls is empty: give at least one URL")
    if len(wanted) > _MAX_PAGES:
        return {"error": f"at most {_MAX_PAGES} URLs at once, not {len(wanted)}: give the others to another call"}
    try:
        settings = load_web_settings()
        require_libraries("web_extract", "web", "httpx", "trafilatura", "pypdf")
    except TerminalError as error:
        return {"error": str(error)}
    deadline = Deadline(settings.timeout)
    try:
        with deadline.held(_CALLS):
            return {"results": _read_in_parallel(wanted, format, settings, deadline)}
    except (DeadlineError, ToolInterruptedError) as error:
        return {"error": str(error)}


def _read_in_parallel(urls: list[str], format: str, settings: WebSettings, deadline: Deadline) -> list[PageResult]:
    with ThreadPoolExecutor(_MAX_PAGES, thread_name_prefix="hermes-web-page") as threads:
        try:
            pages = [threads.submit(_result, url, format, settings, deadline) for url in urls]
            wait(pages)
        except BaseException:
            deadline.stop()
            raise
    return [page.result() for page in pages]


def _result(url: str, format: str, settings: WebSettings, deadline: Deadline) -> PageResult:
    from hermes_tools.web.page import PageError, read_page

    try:
        title, content = read_page(url, format, settings, deadline)
    except (PageError, DeadlineError, ToolInterruptedError) as error:
        return {"url": url, "title": "", "content": "", "error": str(error)}
    return {"url": url, "title": title, "content": content, "error": None}
