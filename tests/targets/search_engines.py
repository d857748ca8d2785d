"""One search with ripgrep, with `grep --null` and with a POSIX grep, which have to agree."""

from __future__ import annotations

import contextlib
import shutil
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from environments import create_environment
from environments.base import BaseEnvironment
from hermes_tools.search.content import ContentQuery, search_content
from hermes_tools.search.engines import Engine
from hermes_tools.search.name_pattern import NamePattern
from hermes_tools.search.pattern import parse_pattern
from hermes_tools.search.results import SearchResult

ENGINES: tuple[Engine, ...] = get_args(Engine)


@contextlib.contextmanager
def with_ripgrep(directory: Path) -> Iterator[BaseEnvironment]:
    """Make an environment of this machine whose PATH has an `rg`: of the development dependency, or else its own."""
    for place in (sysconfig.get_path("scripts"), None):
        if found := shutil.which("rg", path=place):
            break
    else:
        raise FileNotFoundError("these tests compare with ripgrep: install the development dependencies")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(Path(found).parent), prepend=":")
        with create_environment("local", cwd=str(directory)) as environment:
            yield environment


def search_with_all(
    env: BaseEnvironment,
    pattern: str,
    path: str = ".",
    file_glob: str | None = None,
    limit: int = 1000,
    offset: int = 0,
    output_mode: str = "content",
    context: int = 0,
) -> SearchResult:
    names = NamePattern.parse(file_glob) if file_glob else None
    where = path if path.startswith("/") else f"{env.cwd}/{path}"
    query = ContentQuery(where, path, parse_pattern(pattern), names, offset, limit, output_mode, context)
    results = {engine: search_content(env, query, engine) for engine in ENGINES}
    assert results["grep"] == results["rg"]
    assert results["posix"] == results["rg"]
    return results["rg"]


def places(result: SearchResult) -> list[tuple[str, int]]:
    return [(match["path"], match["line"]) for match in result["matches"]]
