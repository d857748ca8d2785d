"""Results of searches."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from typing import NotRequired, TypedDict

from hermes_tools.search.engines import Engine

_LISTED_SKIPPED = 100


class Match(TypedDict):
    """One match; which keys there are depends on `target` and `output_mode`."""

    path: str
    line: NotRequired[int]
    content: NotRequired[str]
    count: NotRequired[int]
    before: NotRequired[list[str]]
    after: NotRequired[list[str]]


class SearchResult(TypedDict):
    """Result of `search_files`. Only `error` is there when it failed."""

    matches: NotRequired[list[Match]]
    total_count: NotRequired[int]
    truncated: NotRequired[bool]
    engine: NotRequired[Engine]
    skipped: NotRequired[list[str]]
    error: NotRequired[str]


def with_skipped(result: SearchResult, skipped: Iterable[str]) -> SearchResult:
    """Return a result with the first files that were left out for their names, if any were."""
    if listed := sorted(skipped)[:_LISTED_SKIPPED]:
        result["skipped"] = listed
    return result


def shown_path(root: str, is_file: bool, path: str) -> str:
    """Return a found path, which is relative to the directory searched, for the caller."""
    if is_file:
        return root
    return path if root in (".", "./") else posixpath.join(root, path)
