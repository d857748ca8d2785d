from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable
from io import BytesIO

import pytest
from pypdf import PdfReader, PdfWriter
from targets.web_server import Site

from environments.base import BaseEnvironment
from hermes_tools.web.web_extract import PageResult, web_extract

pytestmark = pytest.mark.xdist_group("web")


ReadOne = Callable[..., PageResult]


ARTICLE = """<!doctype html><html><head><title> The
 Title </title><script>var hidden = 1;</script></head><body><nav><a href="/home">Menu</a></nav><article>
<h1>Heading</h1><p>A paragraph with <a href="next">a link</a>.</p><ul><li>one</li><li>two</li></ul></article>
</body></html>"""


FRENCH = "L'\xe9l\xe8ve est \xe0 l'\xe9cole, o\xf9 il a \xe9t\xe9 re\xe7u d\xe8s la rentr\xe9e"


def make_pdf(*pages: str) -> bytes:
    """Make a PDF of pages, each with a line of text."""
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


def test_a_short_page_is_its_text_and_an_empty_one_no_error(env: BaseEnvironment, site: Site) -> None:
    declared = '<?xml version="1.0" encoding="utf-8"?><html><body><p>caf\xe9</p></body></html>'
    pages = {"tiny": "tiny", "<!-- nothing -->": "", declared: "caf\xe9"}
    urls = [site.page(f"/{n}", page, "application/xhtml+xml") for n, page in enumerate(pages)]
    results = web_extract(env, urls)["results"]
    assert [(result["content"], result["error"]) for result in results] == [(text, None) for text in pages.values()]


def test_a_pdf_is_its_text(site: Site, read_one: ReadOne) -> None:
    result = read_one(
        site.page("/paper", make_pdf("On the first page", "and on the second"), "application/octet-stream")
    )
    assert result["error"] is None
    assert (result["title"], result["content"]) == ("A Paper", "On the first page\n\nand on the second")


def test_a_pdf_with_a_password_and_a_broken_one_are_errors(site: Site, read_one: ReadOne) -> None:
    writer = PdfWriter(clone_from=BytesIO(make_pdf("secret")))
    writer.encrypt("password", algorithm="RC4-128")
    made = BytesIO()
    writer.write(made)
    assert "encrypted with a password" in str(read_one(site.page("/a", made.getvalue(), "application/pdf"))["error"])
    assert "cannot be read" in str(read_one(site.page("/b", b"%PDF-1.4 and no more", "application/pdf"))["error"])


def test_text_is_decoded_whatever_its_server_says_of_it(site: Site, read_one: ReadOne) -> None:
    for charset, body in (
        ("; charset=utf-8", FRENCH.encode("cp1252")),
        ("; charset=cp1252", FRENCH.encode("cp1252")),
        ("; charset=no-such", FRENCH.encode()),
        ("; charset=punycode", FRENCH.encode()),
        ("; charset=zlib", FRENCH.encode()),
        ("", b"\xff\xfe" + FRENCH.encode("utf-16-le")),
        ("", f"\ufeff{FRENCH}".encode()),
    ):
        assert read_one(site.page("/", body, f"text/plain{charset}"))["content"] == FRENCH, charset
    page = f'<meta charset="cp1252"><html><p>{FRENCH}</p></html>'.encode("cp1252")
    assert read_one(site.page("/", page, "text/html; charset=utf-8"))["content"] == FRENCH


def test_long_content_is_cut_and_says_so(site: Site, read_one: ReadOne, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEB_EXTRACT_CHAR_LIMIT", "1000")
    note = "\n\n[cut: the page has more than these 1,000 characters]"
    long = "word \xe9 " * 1000
    for url in (
        site.page("/a.txt", long, "text/plain; charset=utf-8"),
        site.page("/a.html", f"<html><body><article><p>{long}</p></article></body></html>"),
        site.page("/a.pdf", make_pdf(*["word " * 50] * 5), "application/pdf"),
    ):
        content = read_one(url)["content"]
        assert content.endswith(note)
        assert len(content) == 1000 + len(note)
    assert read_one(site.page("/b.txt", "x" * 1000, "text/plain"))["content"] == "x" * 1000


def test_redirects_are_followed(site: Site, read_one: ReadOne) -> None:
    site.page("/new/place", "here", "text/plain")
    for status in (301, 302, 303, 307, 308):
        result = read_one(site.on("/old", lambda request, status=status: request.redirect("new/place", status)))
        assert result["content"] == "here", status
    site.page("/new/page", ARTICLE)
    page = read_one(site.on("/old", lambda request: request.redirect("new/page")))
    assert f"{site.url}/new/next" in page["content"], "links are relative to where the page is"


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
