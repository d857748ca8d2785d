from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright
from targets.engines import unavailable
from targets.report_record import RecordFile, record, small

from hermes_env.cli.report import report_command

__all__ = ["record", "small"]

CHROMIUM = "/usr/bin/chromium"
QUIETLY = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
QUIETLY += ["--disable-component-update", "--disable-sync"]


@pytest.fixture(scope="module")  # while the browser is open, no other test's event loop can run in this thread
def browser() -> Iterator[Browser]:
    if not Path(CHROMIUM).exists():
        unavailable(f"no {CHROMIUM}")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIETLY)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def tab(browser: Browser) -> Iterator[Page]:
    with browser.new_context(offline=True) as context:
        yield context.new_page()


@pytest.fixture
def open_report(tab: Page, tmp_path: Path) -> Iterator[Callable[..., Page]]:
    """Make the report of a record and open the page. At the end: no error, no dialog and no request."""
    complaints: list[str] = []
    file = tmp_path / "page.html"
    handlers: dict[Any, Callable[[Any], None]] = {
        "console": lambda message: complaints.append(f"{message.type}: {message.text}"),
        "pageerror": lambda error: complaints.append(str(error)),
        "dialog": lambda dialog: complaints.append(f"dialog: {dialog.message}"),
        "request": lambda request: complaints.append(f"request: {request.url.partition('#')[0]}"),
    }

    def show(record: RecordFile, fragment: str = "", width: int = 1280, scheme: Any = "light") -> Page:
        report_command(record.saved(), str(file), force=True)
        tab.set_viewport_size({"width": width, "height": 800})
        tab.emulate_media(color_scheme=scheme)
        tab.goto(file.as_uri() + fragment)
        complaints.remove(f"request: {file.as_uri()}")
        return tab

    for event, handler in handlers.items():
        tab.on(event, handler)
    yield show
    for event, handler in handlers.items():
        tab.remove_listener(event, handler)
    tab.evaluate("localStorage.clear()")
    assert complaints == []
