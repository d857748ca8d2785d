"""Decompression bombs of gigabytes, and malformed pages."""

from __future__ import annotations

import resource
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from targets.web_server import Site, running_site

from environments import BaseEnvironment, create_environment
from hermes_tools.web.web_extract import web_extract

FEW_MEGABYTES = 60_000_000


@pytest.fixture
def env(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[BaseEnvironment]:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    monkeypatch.setenv("WEB_TIMEOUT", "100")
    monkeypatch.setenv("WEB_ALLOW_PRIVATE", "127.0.0.1")
    with create_environment("local", cwd=str(tmp_path)) as environment:
        yield environment


@pytest.fixture
def site() -> Iterator[Site]:
    with running_site() as running:
        yield running


def pdf_with(stream: bytes, filters: str) -> bytes:
    """Make a PDF of a page with a compressed content stream."""
    return (
        b"%PDF-1.4\n1 0 obj <</Type/Catalog/Pages 2 0 R>> endobj\n2 0 obj <</Type/Pages/Count 1/Kids[3 0 R]>> endobj\n"
        b"3 0 obj <</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/Contents 4 0 R>> endobj\n"
        + f"4 0 obj <</Length {len(stream)}/Filter{filters}>> stream\n".encode()
        + stream
        + b"\nendstream endobj\ntrailer <</Root 1 0 R>>\nstartxref\n0\n%%EOF\n"
    )


def test_a_pdf_bomb_takes_no_memory_here(env: BaseEnvironment, site: Site) -> None:
    packer = zlib.compressobj(9)
    bomb = b"".join([packer.compress(b"\0" * 50_000_000) for _ in range(20)]) + packer.flush()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    (result,) = web_extract(env, [site.page("/", pdf_with(bomb, "/FlateDecode"), "application/pdf")])["results"]
    assert result["content"] == ""
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 < FEW_MEGABYTES


def test_deeply_nested_html_harms_no_other_page(env: BaseEnvironment, site: Site) -> None:
    (result,) = web_extract(env, [site.page("/", "<div>" * 300_000 + "deep")])["results"]
    assert result["error"] is None or "cannot be read" in result["error"]
