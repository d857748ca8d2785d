"""Turn an HTML page or a PDF into text: a separate program, as a page may hang the process or fill its memory.

The program reads an order as JSON from standard input and writes an answer as JSON: title and content, or error. To
start at once, it imports no other module of this package.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    import lxml.html

MAX_MEMORY = 2_000_000_000
"""Bytes of address space."""
_LONGEST_TITLE = 500
_MAX_PDF_PAGES = 2000


class Order(TypedDict):
    """The order of a page."""

    kind: str
    """`html` or `pdf`."""
    body: int
    """Descriptor of the file."""
    url: str
    """For relative links."""
    charsets: list[str]
    """Possible charsets of an HTML page, the likeliest first."""
    as_markdown: bool
    most_characters: int
    """The number of wanted characters; a longer answer means a longer text."""
    seconds: float


def main() -> None:
    """Convert the page of the order."""
    order: Order = json.load(sys.stdin)
    _limit(order)
    try:
        with os.fdopen(order["body"], "rb") as body:
            body.seek(0)
            data = body.read()
        title, content = _of_pdf(data, order) if order["kind"] == "pdf" else _of_html(data, order)
        title, content = " ".join(title.split())[:_LONGEST_TITLE], content[: order["most_characters"] + 1]
        answer = {"title": _without_surrogates(title), "content": _without_surrogates(content)}
    except MemoryError:
        answer = {"error": "the page takes too much memory to read"}
    except Exception as error:  # any that a page can cause in a library
        answer = {"error": f"the page cannot be read: {type(error).__name__}: {str(error)[:200]}"}
    json.dump(answer, sys.stdout)


def _limit(order: Order) -> None:
    seconds = int(order["seconds"]) + 2
    for limit, most in (
        (resource.RLIMIT_AS, MAX_MEMORY),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_FSIZE, 12 * order["most_characters"] + 100_000),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(limit, (most, most))
    signal.alarm(seconds)  # ends an orphan


def _without_surrogates(text: str) -> str:
    """Return text without the surrogates of damaged PDFs, which no encoder accepts."""
    return text.encode("utf-8", "replace").decode()


def _of_html(data: bytes, order: Order) -> tuple[str, str]:
    import lxml.html

    try:
        tree = lxml.html.document_fromstring(_decode(data, order["charsets"]))
    except lxml.html.etree.ParserError:  # the page is empty
        return "", ""
    tree.make_links_absolute(order["url"], handle_failures="ignore")
    title = (tree.findtext(".//title") or tree.findtext(".//h1") or "").strip()
    return title, _main_text(tree, order) or _all_text(tree)


def _decode(data: bytes, charsets: list[str]) -> str:
    from trafilatura.utils import decode_file

    for name in (*charsets, "utf-8", "cp1252"):
        try:
            return _without_declaration(data.decode(name))
        except ValueError:
            continue
    return _without_declaration(decode_file(data))


def _without_declaration(text: str) -> str:
    """Return text without an XML declaration: lxml refuses text with a declared charset."""
    start = text.lstrip("\ufeff \t\r\n")
    return start.partition("?>")[2] if start.startswith("<?xml") else start


def _main_text(tree: lxml.html.HtmlElement, order: Order) -> str:
    """Return the main part of a page, without menus and the like."""
    from copy import deepcopy

    from trafilatura import extract
    from trafilatura.settings import DEFAULT_CONFIG

    config = deepcopy(DEFAULT_CONFIG)
    config.set("DEFAULT", "MIN_EXTRACTED_SIZE", "1")  # short pages have a form, too
    config.set("DEFAULT", "EXTRACTION_TIMEOUT", "0")
    found = extract(
        deepcopy(tree),
        output_format="markdown" if order["as_markdown"] else "txt",
        include_links=order["as_markdown"],
        include_formatting=order["as_markdown"],
        favor_recall=True,
        config=config,
    )
    return found or ""


def _all_text(tree: lxml.html.HtmlElement) -> str:
    for element in tree.xpath("//script | //style | //noscript | //template | //head"):
        element.drop_tree()
    lines = (" ".join(line.split()) for line in tree.text_content().splitlines())
    return "\n".join(line for line in lines if line)


def _of_pdf(data: bytes, order: Order) -> tuple[str, str]:
    from io import BytesIO

    from pypdf import PdfReader

    reader = PdfReader(BytesIO(data))
    if reader.is_encrypted and not reader.decrypt(""):
        raise ValueError("the PDF is encrypted with a password")
    title = str(reader.metadata.title or "") if reader.metadata else ""
    texts: list[str] = []
    size = 0
    for page in reader.pages[:_MAX_PDF_PAGES]:
        texts.append(page.extract_text().strip())
        size += len(texts[-1]) + 2
        if size > order["most_characters"]:
            break
    return title, "\n\n".join(texts).strip()


if __name__ == "__main__":
    main()
