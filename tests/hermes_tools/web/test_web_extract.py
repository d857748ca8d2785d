from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable
from io import BytesIO

import pytest
from pypdf import PdfReader, PdfWriter
from targets.web_server import Request, Site

from environments.base import BaseEnvironment
from hermes_tools.web.web_extract import PageResult, web_extract

ReadOne = Callable[..., PageResult]

ARTICLE = """<!doctype html><html><head><title> The
 Title </title><script>var hidden = 1;</script></head><body><nav><a href="/home">Menu</a></nav><article>
<h1>Heading</h1><p>A paragraph with <a href="next">a link</a>.</p><ul><li>one</li><li>two</li></ul></article>
</body></html>"""

FRENCH = "L'\xe9l\xe8ve est \xe0 l'\xe9cole, o\xf9 il a \xe9t\xe9 re\xe7u d\xe8s la rentr\xe9e"
FRENCH_PAGE = f"<html><p>{FRENCH}</p></html>"


def a_pdf(*pages: str) -> bytes:
    """Make a PDF of pages with a line of text each."""
    writer = PdfWriter()
    parts = ["1 0 obj <</Type/Catalog/Pages 2 0 R>> endobj"]
    kids = " ".join(f"{10 + 2 * n} 0 R" for n in range(len(pages)))
    parts.append(f"2 0 obj <</Type/Pages/Count {len(pages)}/Kids[{kids}]>> endobj")
    parts.append("3 0 obj <</Type/Font/Subtype/Type1/BaseFont/Helvetica>> endobj")
    for n, text in enumerate(pages):
        drawn = f"BT /F 12 Tf 72 720 Td ({text}) Tj ET"
        resources = "/Resources<</Font<</F 3 0 R>>>>/MediaBox[0 0 612 792]"
        parts.append(f"{10 + 2 * n} 0 obj <</Type/Page/Parent 2 0 R{resources}/Contents {11 + 2 * n} 0 R>> endobj")
        parts.append(f"{11 + 2 * n} 0 obj <</Length {len(drawn)}>> stream\n{drawn}\nendstream endobj")
    raw = "%PDF-1.4\n" + "\n".join(parts) + "\ntrailer <</Root 1 0 R>>\nstartxref\n0\n%%EOF\n"
    writer.append(PdfReader(BytesIO(raw.encode())))
    writer.add_metadata({"/Title": "A Paper"})
    made = BytesIO()
    writer.write(made)
    return made.getvalue()


def test_a_page_is_markdown_with_its_title_and_whole_links(site: Site, read_one: ReadOne) -> None:
    result = read_one(site.page("/docs/", ARTICLE))
    assert (result["title"], result["error"]) == ("The Title", None)
    assert result["content"] == f"# Heading\n\nA paragraph with [a link]({site.url}/docs/next).\n\n- one\n- two"


def test_other_formats_are_text_and_the_source(site: Site, read_one: ReadOne) -> None:
    url = site.page("/", ARTICLE)
    text = read_one(url, format="text")["content"]
    assert "A paragraph with a link." in text and "](" not in text and "hidden" not in text
    assert read_one(url, format="html")["content"] == ARTICLE


@pytest.mark.parametrize("short", ["<p>tiny</p>", "<html><body>tiny</body></html>", "tiny"])
def test_a_short_page_is_its_text(site: Site, read_one: ReadOne, short: str) -> None:
    assert read_one(site.page("/", short))["content"] == "tiny"


@pytest.mark.parametrize("empty", ["", "<html></html>", "<!-- nothing -->"])
def test_an_empty_page_is_no_error(site: Site, read_one: ReadOne, empty: str) -> None:
    result = read_one(site.page("/", empty))
    assert (result["content"], result["error"]) == ("", None)


def test_text_and_json_are_given_as_they_are(site: Site, read_one: ReadOne) -> None:
    assert read_one(site.page("/a.txt", "one\n  two <b>\n", "text/plain"))["content"] == "one\n  two <b>\n"
    assert read_one(site.page("/a.json", '{"a": 1}', "application/json; charset=utf-8"))["content"] == '{"a": 1}'
    assert read_one(site.page("/a.md", "# a", "application/octet-stream"))["content"] == "# a"
    assert read_one(site.page("/api", '{"b": 1}', "application/problem+json"))["content"] == '{"b": 1}'


def test_a_pdf_is_its_text(site: Site, read_one: ReadOne) -> None:
    for kind in ("application/pdf", "application/octet-stream"):
        result = read_one(site.page("/paper", a_pdf("On the first page", "and on the second"), kind))
        assert result["error"] is None
        assert (result["title"], result["content"]) == ("A Paper", "On the first page\n\nand on the second")


def test_a_pdf_with_a_password_and_a_broken_one_are_errors(site: Site, read_one: ReadOne) -> None:
    writer = PdfWriter(clone_from=BytesIO(a_pdf("secret")))
    writer.encrypt("password", algorithm="RC4-128")
    made = BytesIO()
    writer.write(made)
    assert "encrypted with a password" in str(read_one(site.page("/a", made.getvalue(), "application/pdf"))["error"])
    assert "cannot be read" in str(read_one(site.page("/b", b"%PDF-1.4 and no more", "application/pdf"))["error"])


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("text/html; charset=utf-8", FRENCH_PAGE.encode("cp1252")),
        ("text/html; charset=cp1252", FRENCH_PAGE.encode("cp1252")),
        ("text/html; charset=no-such", FRENCH_PAGE.encode()),
        ("text/html", f'<meta charset="cp1252">{FRENCH_PAGE}'.encode("cp1252")),
        ("text/html; charset=punycode", FRENCH_PAGE.encode()),
        ("text/plain; charset=utf-8", FRENCH.encode("cp1252")),
        ("text/plain; charset=zlib", FRENCH.encode()),
        ("text/plain", b"\xff\xfe" + FRENCH.encode("utf-16-le")),
        ("text/plain", f"\ufeff{FRENCH}".encode()),
    ],
)
def test_text_is_decoded_whatever_its_server_says_of_it(site: Site, read_one: ReadOne, kind: str, body: bytes) -> None:
    assert read_one(site.page("/", body, kind))["content"] == FRENCH


def test_an_xml_declaration_is_no_hindrance(site: Site, read_one: ReadOne) -> None:
    page = '<?xml version="1.0" encoding="utf-8"?><html><body><p>caf\xe9</p></body></html>'
    assert read_one(site.page("/", page, "application/xhtml+xml"))["content"] == "caf\xe9"


@pytest.mark.parametrize(("kind", "body"), [("image/png", b"\x89PNG"), ("", b"\0\1"), ("text/plain", b"a\0b")])
def test_what_is_no_text_is_an_error(site: Site, read_one: ReadOne, kind: str, body: bytes) -> None:
    assert "it is no page, text or PDF" in str(read_one(site.page("/", body, kind))["error"])


@pytest.mark.parametrize("status", [404, 410, 500, 503, 299 + 100])
def test_an_answer_without_a_page_is_an_error(site: Site, read_one: ReadOne, status: int) -> None:
    result = read_one(site.page("/", "sorry", status=status))
    assert str(result["error"]).startswith(f"127.0.0.1 answered {status}")
    assert result["content"] == ""


def test_long_content_is_cut_and_says_so(site: Site, read_one: ReadOne, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEB_EXTRACT_CHAR_LIMIT", "1000")
    note = "\n\n[cut: the page has more than these 1,000 characters]"
    long = "word \xe9 " * 1000
    for url in (
        site.page("/a.txt", long, "text/plain; charset=utf-8"),
        site.page("/a.html", f"<html><body><article><p>{long}</p></article></body></html>"),
        site.page("/a.pdf", a_pdf(*["word " * 50] * 10), "application/pdf"),
    ):
        content = read_one(url)["content"]
        assert content.endswith(note)
        assert len(content) == 1000 + len(note)
    assert read_one(site.page("/b.txt", "x" * 1000, "text/plain"))["content"] == "x" * 1000


def test_results_have_the_order_of_the_urls_and_one_failure_is_its_own(env: BaseEnvironment, site: Site) -> None:
    urls = [site.page(f"/{n}", f"page {n}", "text/plain") for n in range(4)]
    urls.insert(2, f"{site.url}/missing")
    results = web_extract(env, urls)["results"]
    assert [result["url"] for result in results] == urls
    assert [result["content"] for result in results] == ["page 0", "page 1", "", "page 2", "page 3"]
    assert [result["error"] for result in results] == [None, None, "127.0.0.1 answered 404 Not Found", None, None]


def test_too_many_urls_are_an_error_and_none_is_fetched(env: BaseEnvironment, site: Site) -> None:
    assert web_extract(env, [f"{site.url}/"] * 6) == {
        "error": "at most 5 URLs at once, not 6: give the others to another call"
    }
    assert site.requests == []


def test_wrong_arguments_are_refused(env: BaseEnvironment) -> None:
    with pytest.raises(ValueError, match="at least one URL"):
        web_extract(env, [])
    with pytest.raises(ValueError, match="'markdown', 'text' or 'html'"):
        web_extract(env, ["http://a.example"], format="docx")  # type: ignore[arg-type]


def test_a_single_url_as_text_is_one_url(env: BaseEnvironment, site: Site) -> None:
    url = site.page("/", "here", "text/plain")
    assert web_extract(env, url)["results"][0]["content"] == "here"  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("ftp://a.example/", "only http:// and https://"),
        ("file:///etc/passwd", "only http:// and https://"),
        ("a.example/page", "only http:// and https://"),
        ("http://", "only http:// and https://"),
        ("http://user:password@a.example/", "holds a user or password"),
        ("http://[::1", "this is no URL"),
        ("http://a.example/" + "x" * 9000, "longer than 8,000 characters"),
        (7, "of type int"),
    ],
)
def test_what_is_no_url_of_a_page_is_its_own_error(read_one: ReadOne, url: str, why: str) -> None:
    assert why in str(read_one(url)["error"])


def test_redirects_are_followed(site: Site, read_one: ReadOne) -> None:
    site.page("/new/place", ARTICLE)
    for status in (301, 302, 303, 307, 308):
        result = read_one(site.on("/old", lambda request, status=status: request.redirect("new/place", status)))
        assert result["title"] == "The Title"
        assert f"{site.url}/new/next" in result["content"]


def test_redirects_end(site: Site, read_one: ReadOne) -> None:
    result = read_one(site.on("/round", lambda request: request.redirect("/round")))
    assert result["error"] == "more than 10 redirects"
    assert len(site.requests) == 11


@pytest.mark.parametrize(
    ("where", "why"),
    [
        ("ftp://127.0.0.1/", "only http:// and https://"),
        ("file:///etc/passwd", "only http:// and https://"),
        ("http://user:password@127.0.0.1/", "holds a user or password"),
        ("http://[::1", "Invalid URL"),
    ],
)
def test_a_redirect_leads_to_pages_only(site: Site, read_one: ReadOne, where: str, why: str) -> None:
    error = str(read_one(site.on("/", lambda request: request.redirect(where)))["error"])
    assert why in error and "password@" not in error


def test_packed_pages_are_unpacked(site: Site, read_one: ReadOne) -> None:
    text = "packed " * 10_000
    raw = zlib.compressobj(wbits=-15)
    for encoding, body in (
        ("gzip", gzip.compress(text.encode(), mtime=0)),
        ("deflate", zlib.compress(text.encode())),
        ("deflate", raw.compress(text.encode()) + raw.flush()),
        ("identity", text.encode()),
    ):
        assert read_one(site.page("/", body, "text/plain", Content_Encoding=encoding))["content"] == text


@pytest.mark.parametrize(
    ("encoding", "body", "why"),
    [
        ("br", b"\x0b\x02", "packed with 'br', which was not asked for"),
        ("gzip, gzip", gzip.compress(gzip.compress(b"a", mtime=0), mtime=0), "packed with 'gzip, gzip'"),
        ("gzip", b"no gzip at all", "damaged"),
        ("gzip", gzip.compress(b"a" * 1000, mtime=0)[:20], "ends too early"),
    ],
)
def test_what_cannot_be_unpacked_is_an_error(
    site: Site, read_one: ReadOne, encoding: str, body: bytes, why: str
) -> None:
    assert why in str(read_one(site.page("/", body, "text/plain", Content_Encoding=encoding))["error"])
    assert site.requests[0].headers["Accept-Encoding"] == "gzip, deflate"


def test_a_cookie_is_not_sent_to_another_site(site: Site, read_one: ReadOne) -> None:
    def set_cookie(request: Request) -> None:
        request.answer("", status=302, Location=f"http://localhost:{site.port}/other", Set_Cookie="a=b")

    read_one(site.on("/", set_cookie))
    assert [request.path for request in site.requests] == ["/", "/other"]
    assert "Cookie" not in site.requests[1].headers
