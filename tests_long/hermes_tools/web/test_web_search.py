from __future__ import annotations

from typing import Any

import pytest
from targets.web_server import Site, as_searxng

from environments import create_environment

pytestmark = pytest.mark.xdist_group("web")


def test_a_script_searches_and_reads_without_a_network_of_its_own(
    site: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    from code_execution import execute_code

    monkeypatch.setenv("SEARXNG_URL", site.url)
    pages = [site.page(f"/{name}", f"<article><p>All about {name}.</p></article>") for name in ("cats", "dogs")]
    as_searxng(site, lambda query: [(query, page, "") for page in pages if query in page])
    script = """
from hermes_tools import web_extract, web_search
urls = [web_search(query, limit=1)["data"]["web"][0]["url"] for query in ("cats", "dogs")]
for page in web_extract(urls, format="text")["results"]:
    print(page["error"], page["content"])
"""
    with create_environment("local", cwd=str(tmp_path)) as env:
        result = execute_code(script, env=env)
    assert (result.status, result.output) == ("success", "None All about cats.\nNone All about dogs.\n")
