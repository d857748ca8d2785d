"""The site is built without a warning, needs no network, and has readable pictures."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from docs.documents import ROOT
from targets.engines import PYTHON_IMAGE, require_docker

SVG = "{http://www.w3.org/2000/svg}"
PICTURES = sorted([ROOT / "docs/picture.svg", *ROOT.glob("docs/diagrams/*.svg")])
MODULES = [
    "environments",
    "environments.approvals",
    "code_execution",
    "hermes_env.aio",
    "hermes_env.batch",
    "hermes_env.schemas",
]
_LOADED = re.compile(
    r'<(?:script|img|iframe|source|link rel="(?:stylesheet|icon|preconnect)")[^>]*?(?:src|href)="(\w+:)?//'
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, newly built."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    env = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout + done.stderr == ""
    return folder


def test_every_document_and_every_file_that_one_links_to_is_a_page(site: Path) -> None:
    documents = [file.relative_to(ROOT / "docs").with_suffix(".html") for file in (ROOT / "docs").rglob("*.md")]
    assert [page for page in documents if not (site / page).is_file()] == []
    example = (site / "repository/examples/own_tools.py.html").read_text()
    assert "find_orders" in example
    assert 'href="repository/examples/agent_loop.py.html"' in (site / "agents.html").read_text()


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 30
    assert [page.name for page in pages if _LOADED.search(page.read_text())] == []
    styles = [*site.rglob("*.css")]
    assert styles
    assert [file.name for file in styles if re.search(r"(@import|url\()\s*['\"]?(https?:)?//", file.read_text())] == []


def test_what_is_no_document_is_not_part_of_the_site(site: Path) -> None:
    assert list(site.rglob("*.py")) == []


def test_the_reference_has_every_public_name() -> None:
    described = set(re.findall(r"^::: (\S+)$", (ROOT / "docs/api.md").read_text(), re.MULTILINE))
    names = {f"{module}.{name}" for module in MODULES for name in importlib.import_module(module).__all__}
    assert names - described == set()


def test_a_picture_has_a_description_and_its_text_as_text() -> None:
    for file in PICTURES:
        check_picture(file)


def check_picture(file: Path) -> None:
    picture = ElementTree.parse(file).getroot()
    title, said = picture.findtext(f"{SVG}title"), picture.findtext(f"{SVG}desc")
    assert title and said
    assert len(list(picture.iter(f"{SVG}text"))) > 10
    shown = "\n".join((ROOT / name).read_text() for name in ("README.md", "docs/how-it-works.md"))
    alternatives = re.findall(rf"!\[([^\]]+)\]\([\w/-]*{file.name}\)", shown)
    assert alternatives
    assert set(alternatives) <= {title, said}
    text = file.read_text()
    assert re.findall(r"https?://[^\"'\s]+", text) == ["http://www.w3.org/2000/svg"]
    assert "prefers-color-scheme: dark" in text or file.stem == "picture"  # picture.svg is a dark window in any case


def test_the_readmes_terminal_shows_what_its_commands_show(tmp_path: Path) -> None:
    require_docker().close()
    env = {name: value for name, value in os.environ.items() if not name.startswith("TERMINAL_")}
    made = tmp_path / "picture.svg"
    command = [sys.executable, str(ROOT / "docs/picture.py"), "--to", str(made)]
    subprocess.run(command, env=env | {"TERMINAL_DOCKER_IMAGE": PYTHON_IMAGE}, check=True)

    def said(file: Path) -> str:
        return re.sub(r"\d+(\.\d+)?", "N", ElementTree.parse(file).getroot().findtext(f"{SVG}desc") or "")

    assert said(made) == said(ROOT / "docs/picture.svg"), "make picture draws it anew"
