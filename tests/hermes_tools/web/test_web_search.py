from __future__ import annotations

import json
import threading
from collections.abc import Callable

import pytest
from ddgs.exceptions import DDGSException
from targets.web_server import Request, Site, as_searxng, running_site

from environments.base import BaseEnvironment
from environments.cancellation import CancelScope
from hermes_tools import model_tools
from hermes_tools.web.web_search import WebSearchResult, web_search

pytestmark = pytest.mark.xdist_group("web")

KEY = "key-0123456789-abcdef"
Search = Callable[..., WebSearchResult]


@pytest.fixture
def search(env: BaseEnvironment) -> Search:
    return lambda query, *args: web_search(env, query, *args)


def found(number: int) -> list[tuple[str, str, str]]:
    return [(f"Title {n}", f"https://page.example/{n}", f"Text  {n}\n") for n in range(1, number + 1)]


@pytest.fixture
def searxng(site: Site, monkeypatch: pytest.MonkeyPatch) -> Site:
    """A SearXNG at a private address, allowed without a setting."""
    monkeypatch.delenv("WEB_ALLOW_PRIVATE")
    monkeypatch.setenv("SEARXNG_URL", as_searxng(site, lambda query: found(30)) + "/")
    return site


@pytest.fixture
def brave(site: Site, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setenv("BRAVE_SEARCH_API_KEY", KEY)
    monkeypatch.setenv("WEB_BRAVE_URL", site.url)

    def answer(request: Request) -> None:
        if request.headers["X-Subscription-Token"] != KEY:
            return request.answer_json({"type": "ErrorResponse", "error": {"detail": KEY}}, 401)
        results = [
            {"title": title, "url": url, "description": f"<strong>{text}</strong> &amp; more", "type": "search_result"}
            for title, url, text in found(int(request.query["count"]))
        ]
        return request.answer_json({"type": "search", "web": {"type": "search", "results": results}})

    site.on("/res/v1/web/search", answer)
    return site


@pytest.fixture
def tavily(site: Site, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setenv("TAVILY_API_KEY", KEY)
    monkeypatch.setenv("WEB_TAVILY_URL", site.url)

    def answer(request: Request) -> None:
        if request.command != "POST" or request.headers["Authorization"] != f"Bearer {KEY}":
            return request.answer_json({"detail": {"error": KEY}}, 401)
        asked = json.loads(request.body)
        results = [{"title": title, "url": url, "content": text} for title, url, text in found(asked["max_results"])]
        return request.answer_json({"query": asked["query"], "results": results, "response_time": 1.0})

    site.on("/search", answer)
    return site


def test_without_a_provider_the_error_names_the_settings(search: Search) -> None:
    assert search("anything") == {
        "error": "no search provider is configured: set SEARXNG_URL, BRAVE_SEARCH_API_KEY or TAVILY_API_KEY, or "
        "WEB_SEARCH_PROVIDER=ddgs, which needs no key"
    }


def test_searxng_is_queried_at_its_url(searxng: Site, search: Search) -> None:
    assert search(" what? & so=1 ", 2) == {
        "data": {
            "web": [
                {"title": "Title 1", "url": "https://page.example/1", "description": "Text 1", "position": 1},
                {"title": "Title 2", "url": "https://page.example/2", "description": "Text 2", "position": 2},
            ]
        }
    }
    assert searxng.requests[0].query == {"q": "what? & so=1", "format": "json"}


def test_brave_is_asked_with_its_key(brave: Site, search: Search) -> None:
    results = search("rust async", 3)["data"]["web"]
    assert [(hit["title"], hit["position"]) for hit in results] == [("Title 1", 1), ("Title 2", 2), ("Title 3", 3)]
    assert results[0]["description"] == "Text 1 & more"
    assert (brave.requests[0].query["q"], brave.requests[0].query["count"]) == ("rust async", "3")


def test_tavily_is_asked_with_its_key(tavily: Site, search: Search) -> None:
    results = search("rust async")["data"]["web"]
    assert [hit["url"] for hit in results] == [url for _, url, _ in found(5)]
    assert json.loads(tavily.requests[0].body) == {"query": "rust async", "max_results": 5}


def test_the_limit_holds_and_is_at_most_20(searxng: Site, search: Search) -> None:
    for limit in (1, 20, 10**9):
        assert len(search("anything", limit)["data"]["web"]) == min(limit, 20)


def test_the_chosen_provider_requires_its_settings(search: Search, monkeypatch: pytest.MonkeyPatch) -> None:
    needed = {"searxng": "SEARXNG_URL", "brave": "BRAVE_SEARCH_API_KEY", "tavily": "TAVILY_API_KEY"}
    for provider, variable in needed.items():
        monkeypatch.setenv("WEB_SEARCH_PROVIDER", provider)
        assert search("anything")["error"].endswith(f"set {variable}")


def test_the_chosen_provider_precedes_other_configured_ones(
    searxng: Site, search: Search, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_site() as other:
        monkeypatch.setenv("BRAVE_SEARCH_API_KEY", KEY)
        monkeypatch.setenv("WEB_BRAVE_URL", other.url)
        search("first")
        monkeypatch.setenv("WEB_SEARCH_PROVIDER", "brave")
        search("second")
        assert ([request.query["q"] for request in searxng.requests], len(other.requests)) == (["first"], 1)


def test_wrong_arguments_are_refused(search: Search) -> None:
    for arguments in (("",), ("  ",), ("x" * 2001,), ("a", 0), ("a", -1)):
        with pytest.raises(ValueError, match="give"):
            search(*arguments)


def test_a_refusal_has_the_remedy_and_no_key(brave: Site, search: Search) -> None:
    with running_site() as thief:
        for status, why in (
            (401, "look at BRAVE_SEARCH_API_KEY"),
            (429, "try again later"),
            (500, "500 Internal Server Error"),
            (302, "302"),
        ):
            page = lambda request, status=status: request.answer(KEY, status=status, Location=thief.url)  # noqa: E731
            brave.on("/res/v1/web/search", page)
            error = search("anything")["error"]
            assert error.startswith("Brave answered ") and why in error and KEY not in error
        assert thief.requests == []  # a key goes to no other service


def test_a_key_that_no_header_can_hold_is_an_error_without_it(
    brave: Site, search: Search, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key in ("key-0123\r\nX-Other: 1", "key-0123\N{EURO SIGN}"):
        monkeypatch.setenv("BRAVE_SEARCH_API_KEY", key)
        error = search("anything")["error"]
        assert "Brave could not be asked" in error and "key-0123" not in error
    assert brave.requests == []


def test_a_searxng_without_json_is_an_error_with_the_remedy(searxng: Site, search: Search) -> None:
    searxng.page("/search", "Forbidden", status=403)
    assert "add json to search.formats" in search("anything")["error"]


@pytest.mark.usefixtures("without_collector")
def test_an_odd_answer_is_an_error(searxng: Site, search: Search) -> None:
    for answer, why in (
        ("<html>", "did not answer with JSON"),
        ("[" * 100_000, "did not answer with JSON"),
        ("[]", "did not answer with search results"),
        ('{"results": 1}', "did not answer with a list"),
        ("{}", "did not answer with a list"),
        ('{"results": "' + "x" * 6_000_000 + '"}', "larger than 5,000,000 bytes"),
    ):
        searxng.page("/search", answer, "application/json")
        assert why in search("anything")["error"]


def test_odd_results_are_left_out_or_cut(searxng: Site, search: Search) -> None:
    results = [
        1,
        {},
        {"url": ["https://page.example"]},
        {"url": "javascript:alert(1)", "title": "no"},
        {"url": "https://page.example/a", "title": None, "content": 5},
        {"url": "https://page.example/b", "title": "t" * 10_000, "content": "c" * 10_000},
    ]
    searxng.page("/search", json.dumps({"results": results}), "application/json")
    first, second = search("anything")["data"]["web"]
    assert first == {"title": first["url"], "url": "https://page.example/a", "description": "", "position": 1}
    assert (len(second["title"]), len(second["description"]), second["position"]) == (500, 2000, 2)


def test_a_service_that_cannot_be_reached_is_an_error(search: Search, monkeypatch: pytest.MonkeyPatch) -> None:
    for url in ("http://127.0.0.1:1", "http://no-such-name.invalid", "http://user:secret-word@127.0.0.1:1"):
        monkeypatch.setenv("SEARXNG_URL", url)
        error = search("anything")["error"]
        assert error.startswith("SearXNG could not be asked: ") and "secret-word" not in error
    monkeypatch.setenv("SEARXNG_URL", "127.0.0.1:8080")
    assert "begin with http:// or https://" in search("anything")["error"]


def test_a_search_ends_at_its_time_out_and_when_its_caller_leaves(
    env: BaseEnvironment, searxng: Site, search: Search, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck, begun = threading.Event(), threading.Event()
    searxng.on("/search", lambda request: begun.set() or bool(stuck.wait()))
    monkeypatch.setenv("WEB_TIMEOUT", "0.2")
    assert search("anything") == {"error": "timed out after 0.2 s"}
    monkeypatch.setenv("WEB_TIMEOUT", "100")
    begun.clear()
    scope, results = CancelScope(), []

    def call() -> None:
        with scope.active():
            results.append(search("anything"))

    caller = threading.Thread(target=call)
    caller.start()
    begun.wait()
    scope.cancel()
    caller.join()
    stuck.set()
    assert results == [{"error": "the call was interrupted"}]


# The library ddgs queries public services. Tests replace its results and errors.


def test_results_of_ddgs_are_converted(search: Search, monkeypatch: pytest.MonkeyPatch) -> None:
    def text(self: object, query: str, max_results: int) -> list[dict[str, str]]:
        assert (query, max_results) == ("rust", 2)
        return [{"title": title, "href": url, "body": text} for title, url, text in found(3)]

    monkeypatch.setenv("WEB_SEARCH_PROVIDER", "ddgs")
    monkeypatch.setattr("ddgs.ddgs.DDGS.text", text)
    assert search("rust", 2)["data"]["web"][1] == {
        "title": "Title 2",
        "url": "https://page.example/2",
        "description": "Text 2",
        "position": 2,
    }


def test_an_exception_of_ddgs_is_an_error(search: Search, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEB_SEARCH_PROVIDER", "ddgs")
    for error in (DDGSException("No results found."), RuntimeError("odd page")):

        def text(*args: object, error: Exception = error, **kwargs: object) -> None:
            raise error

        with monkeypatch.context() as patched:
            patched.setattr("ddgs.ddgs.DDGS.text", text)
            assert search("rust") == {"error": f"ddgs could not search: {type(error).__name__}: {error}"}
    monkeypatch.setenv("DDGS_PROXY", "http://127.0.0.1:1")
    assert search("rust")["error"].startswith("ddgs could not search: "), "its real client, without a network"


def test_ddgs_has_an_extra_of_its_own(search: Search, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEB_SEARCH_PROVIDER", "ddgs")
    monkeypatch.setattr("environments.extras.find_spec", lambda name: None)
    assert search("rust")["error"] == (
        "web.search_provider ddgs needs the extra ddgs (ddgs is not installed): "
        "pip install 'hermes-environments[ddgs]', or from a checkout: pip install '.[ddgs]'"
    )


def test_ddgs_is_left_alone_when_the_time_is_up(search: Search, monkeypatch: pytest.MonkeyPatch) -> None:
    stuck = threading.Event()
    monkeypatch.setenv("WEB_SEARCH_PROVIDER", "ddgs")
    monkeypatch.setattr("ddgs.ddgs.DDGS.text", lambda *args, **kwargs: stuck.wait())
    monkeypatch.setenv("WEB_TIMEOUT", "0.2")
    assert search("rust") == {"error": "timed out after 0.2 s"}
    stuck.set()


def test_a_model_gets_no_secret_that_a_service_repeats(
    env: BaseEnvironment, searxng: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAVILY_API_KEY", KEY)
    as_searxng(searxng, lambda query: [("Title", f"https://page.example/?{KEY}", f"Your key is {KEY}")])
    assert KEY not in str(model_tools(env)["web_search"]("anything"))
    monkeypatch.setenv("WEB_ALLOW_PRIVATE", "127.0.0.1")
    url = searxng.page("/page", f"Your key is {KEY}", "text/plain")
    assert "[REDACTED:TAVILY_API_KEY]" in str(model_tools(env)["web_extract"]([url]))
