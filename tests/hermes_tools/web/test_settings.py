from __future__ import annotations

import os
from pathlib import Path

import pytest

from environments.base import BaseEnvironment
from environments.errors import SettingsError
from hermes_tools.web.settings import WebSettings, load_web_settings
from hermes_tools.web.web_extract import web_extract
from hermes_tools.web.web_search import web_search

pytestmark = pytest.mark.xdist_group("web")


@pytest.fixture
def config(nothing_is_configured: None) -> Path:
    path = Path(os.environ["HERMES_HOME"]) / "config.yaml"
    path.parent.mkdir()
    return path


def test_the_defaults_hold_when_nothing_is_set() -> None:
    assert load_web_settings() == WebSettings()


def test_variables_go_before_the_file(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config.write_text("web: {search_provider: brave, searxng_url: http://a, allow_private: [10.0.0.0/8], timeout: 5}")
    read = load_web_settings()
    assert (read.search_provider, read.searxng_url, read.timeout) == ("brave", "http://a", 5)
    assert read.allow_private == ("10.0.0.0/8",)
    for name, value in (("WEB_SEARCH_PROVIDER", "ddgs"), ("SEARXNG_URL", "http://b"), ("WEB_TIMEOUT", "7")):
        monkeypatch.setenv(name, value)
    read = load_web_settings()
    assert (read.search_provider, read.searxng_url, read.timeout) == ("ddgs", "http://b", 7)


def test_allow_private_is_a_list_or_words_with_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    for text, meant in (
        ("a.example, 10.0.0.0/8", ("a.example", "10.0.0.0/8")),
        ('["a.example", "::1"]', ("a.example", "::1")),
        ("127.0.0.1", ("127.0.0.1",)),
        (" , ", ()),
        ("", ()),
    ):
        monkeypatch.setenv("WEB_ALLOW_PRIVATE", text)
        assert load_web_settings().allow_private == meant
    monkeypatch.setenv("WEB_ALLOW_PRIVATE", "[::1]")
    with pytest.raises(SettingsError, match="WEB_ALLOW_PRIVATE: it should be a list"):
        load_web_settings()


def test_a_wrong_setting_is_an_error_of_both_tools(env: BaseEnvironment, config: Path) -> None:
    for line, why in (
        ("serch_provider: brave", "did you mean 'search_provider'"),
        ("search_provider: altavista", "web.search_provider: it should be 'searxng', 'brave', 'tavily' or 'ddgs'"),
        ("timeout: 0", "web.timeout: it should be greater than 0"),
        ("allow_private: ['http://a.example']", "neither a host nor a network"),
        ("allow_private: ['10.0.0.1:80']", "leave out scheme and port"),
    ):
        config.write_text(f"web: {{{line}}}")
        for result in (web_search(env, "a"), web_extract(env, ["http://a.example"])):
            assert why in result["error"]
