"""A web site on this machine, and settings independent of the user's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from environments.base import BaseEnvironment
from hermes_tools.web.web_extract import PageResult, web_extract
from targets.web_server import Site, running_site, self_signed

ReadOne = Callable[..., PageResult]


@pytest.fixture(scope="session")
def one_certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with one authority. Loading the system's authorities for each request takes most of a test's time."""
    folder = tmp_path_factory.mktemp("authority")
    self_signed(folder, "authority.example")
    return folder / "certificate.pem"


@pytest.fixture(autouse=True)
def nothing_is_configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, one_certificate: Path) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(one_certificate))
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "hermes-home"))
    for name in ("SEARXNG_URL", "WEB_SEARCH_PROVIDER", "WEB_ALLOW_PRIVATE", "BRAVE_SEARCH_API_KEY", "TAVILY_API_KEY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A site with an admitted private address."""
    monkeypatch.setenv("WEB_ALLOW_PRIVATE", "127.0.0.1")
    with running_site() as running:
        yield running


@pytest.fixture
def read_one(env: BaseEnvironment) -> ReadOne:
    """Reads one page."""

    def read_one(url: str, **arguments: str) -> PageResult:
        (result,) = web_extract(env, [url], **arguments)["results"]
        assert result["url"] == url
        return result

    return read_one
