"""A hook of MkDocs: pages for linked files of the repository.

A document links to `../examples/own_tools.py` as in a checkout. The site has no such file, so each linked file becomes
a page below `repository/`, and links are rewritten. The same holds for links in such a file.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
DOCS, PAGES = "docs/", "repository/"
LANGUAGES = {".py": "python", ".toml": "toml", ".sh": "sh", ".yaml": "yaml", ".yml": "yaml"}
_LINK = re.compile(r"(?<=\]\()(?!\w+:|[#/])([^)\s#]+)(?=[)\s#])")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each linked file, see MkDocs."""
    waiting = [(DOCS + file.src_uri, file.content_string) for file in files.documentation_pages()]
    while waiting:
        place, text = waiting.pop()
        for path in _linked_from(place, text):
            if path.startswith(DOCS) or files.get_file_from_path(_page_of(path)):
                continue
            content = (ROOT / path).read_text()
            files.append(File.generated(config, _page_of(path), content=_as_page(path, content)))
            if path.endswith(".md"):
                waiting.append((path, content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrite links to these pages, see MkDocs."""
    source = page.file.src_uri
    place = source.removeprefix(PAGES) if source.startswith(PAGES) else DOCS + source
    here = posixpath.dirname(source)

    def rewritten(link: re.Match[str]) -> str:
        path = _path(place, link[1])
        if not (ROOT / path).is_file():
            return link[1]  # MkDocs warns of a broken link
        return posixpath.relpath(path.removeprefix(DOCS) if path.startswith(DOCS) else _page_of(path), here or ".")

    return _LINK.sub(rewritten, markdown)


def _linked_from(place: str, text: str) -> list[str]:
    paths = (_path(place, link) for link in _LINK.findall(text))
    return [path for path in paths if (ROOT / path).is_file()]


def _path(place: str, link: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(place), link))


def _page_of(path: str) -> str:
    return PAGES + (path if path.endswith(".md") else f"{path}.md")


def _as_page(path: str, content: str) -> str:
    if path.endswith(".md"):
        return content
    language = LANGUAGES.get(posixpath.splitext(path)[1], "text")
    return f"# {path}\n\n````{language}\n{content}````\n"
