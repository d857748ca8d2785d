from __future__ import annotations

import gzip
from collections.abc import Callable

import pytest
from targets.web_server import Request, Site

from environments.base import BaseEnvironment
from hermes_tools.web.web_extract import PageResult, web_extract

pytestmark = pytest.mark.xdist_group("web")

ReadOne = Callable[..., PageResult]

ARTICLE = """<!doctype html><html><head><title> The
 Title </title><script>var hidden = 1;</script></head><body><nav><a href="/home">Menu</a></nav><article>
<h1>Heading</h1><p>A paragraph with <a href="next">a link</a>.</p><ul><li>one</li><li>two</li></ul></article>
</body></html>"""


def test_a_page_is_markdown_text_or_its_source(site: Site, read_one: ReadOne) -> None:
    url = site.page("/docs/", ARTICLE)
    result = read_one(url)
    assert (result["title"], result["error"]) == ("The Title", None)
    assert result["content"] == f"# Heading\n\nA paragraph with [a link]({site.url}/docs/next).\n\n- one\n- two"
    text = read_one(url, format="text")["content"]
    assert "A paragraph with a link." in text and "](" not in text and "hidden" not in text
    assert read_one(url, format="html")["content"] == ARTICLE


def test_text_and_json_are_given_as_they_are(site: Site, read_one: ReadOne) -> None:
    assert read_one(site.page("/a.txt", "one\n  two <b>\n", "text/plain"))["content"] == "one\n  two <b>\n"
    assert read_one(site.page("/a.json", '{"a": 1}', "application/json; charset=utf-8"))["content"] == '{"a": 1}'
    assert read_one(site.page("/a.md", "# a", "application/octet-stream"))["content"] == "# a"
    assert read_one(site.page("/api", '{"b": 1}', "application/problem+json"))["content"] == '{"b": 1}'


def test_a_page_that_is_no_text_is_an_error(site: Site, read_one: ReadOne) -> None:
    for kind, body in (("image/png", b"\x89PNG"), ("", b"\0\1"), ("text/plain", b"a\0b")):
        assert "the content is no page, text or PDF" in str(read_one(site.page("/", body, kind))["error"])


def test_an_answer_without_a_page_is_an_error(site: Site, read_one: ReadOne) -> None:
    for status in (404, 410, 500, 503, 399):
        result = read_one(site.page("/", "sorry", status=status))
        assert str(result["error"]).startswith(f"127.0.0.1 answered {status}")
        assert result["content"] == ""


def test_results_have_the_order_of_the_urls_and_one_failure_is_its_own(env: BaseEnvironment, site: Site) -> None:
    urls = [site.page(f"/{n}", f"page {n}", "text/plain") for n in range(4)]
    urls.insert(2, f"{site.url}/missing")
    results = web_extract(env, urls)["results"]
    assert [result["url"] for result in results] == urls
    assert [result["content"] for result in results] == ["page 0", "page 1", "", "page 2", "page 3"]
    assert [result["error"] for result in results] == [None, None, "127.0.0.1 answered 404 Not Found", None, None]


def test_wrong_arguments_are_refused_and_nothing_is_fetched(env: BaseEnvironment, site: Site) -> None:
    too_many = "at most 5 URLs at once, not 6: give the others to another call"
    assert web_extract(env, [f"{site.url}/"] * 6) == {"error": too_many}
    with pytest.raises(ValueError, match="at least one URL"):
        web_extract(env, [])
    with pytest.raises(ValueError, match="'markdown', 'text' or 'html'"):
        web_extract(env, [f"{site.url}/"], format="docx")  # type: ignore[arg-type]
    assert site.requests == []
    url = site.page("/", "here", "text/plain")
    assert web_extract(env, url)["results"][0]["content"] == "here"  # type: ignore[arg-type]


def test_an_invalid_url_is_an_error_of_its_own_result(read_one: ReadOne) -> None:
    for url, why in (
        ("ftp://a.example/", "only http:// and https://"),
        ("file:///etc/passwd", "only http:// and https://"),
        ("a.example/page", "only http:// and https://"),
        ("http://", "only http:// and https://"),
        ("http://user:password@a.example/", "holds a user or password"),
        ("http://[::1", "this is no URL"),
        ("http://a.example/" + "x" * 9000, "longer than 8,000 characters"),
    ):
        assert why in str(read_one(url)["error"])


def test_redirects_are_limited(site: Site, read_one: ReadOne) -> None:
    result = read_one(site.on("/round", lambda request: request.redirect("/round")))
    assert result["error"] == "more than 10 redirects"
    assert len(site.requests) == 11


def test_a_redirect_may_lead_only_to_http_urls(site: Site, read_one: ReadOne) -> None:
    for where, why in (
        ("ftp://127.0.0.1/", "only http:// and https://"),
        ("file:///etc/passwd", "only http:// and https://"),
        ("http://user:password@127.0.0.1/", "holds a user or password"),
        ("http://[::1", "Invalid URL"),
    ):
        error = str(read_one(site.on("/", lambda request, where=where: request.redirect(where)))["error"])
        assert why in error and "password@" not in error


def test_invalid_compression_is_an_error(site: Site, read_one: ReadOne) -> None:
    twice = gzip.compress(gzip.compress(b"a", mtime=0), mtime=0)
    for encoding, body, why in (
        ("br", b"\x0b\x02", "the encoding 'br', which was not requested"),
        ("gzip, gzip", twice, "the encoding 'gzip, gzip'"),
        ("gzip", b"no gzip at all", "damaged"),
        ("gzip", gzip.compress(b"a" * 1000, mtime=0)[:20], "ends too early"),
    ):
        assert why in str(read_one(site.page("/", body, "text/plain", Content_Encoding=encoding))["error"])
    assert site.requests[0].headers["Accept-Encoding"] == "gzip, deflate"


def test_a_cookie_is_not_sent_to_another_site(site: Site, read_one: ReadOne) -> None:
    def set_cookie(request: Request) -> None:
        request.answer("", status=302, Location=f"http://localhost:{site.port}/other", Set_Cookie="a=b")

    read_one(site.on("/", set_cookie))
    assert [request.path for request in site.requests] == ["/", "/other"]
    assert "Cookie" not in site.requests[1].headers
