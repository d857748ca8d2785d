"""Search for text in files, or for files by name."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from environments.base import BaseEnvironment
from hermes_tools.files.target_paths import target_path
from hermes_tools.interruption import ToolInterruptedError, raise_if_interrupted
from hermes_tools.search.content import ContentQuery, search_content
from hermes_tools.search.engines import list_command
from hermes_tools.search.name_pattern import NamePattern
from hermes_tools.search.pattern import PatternError, parse_pattern
from hermes_tools.search.results import (
    Match,
    SearchError,
    SearchResult,
    is_decoded,
    run_search,
    shown_path,
    with_skipped,
)

_MOST_LINES = 50_000
"""Matching lines that one call returns; a larger limit has this meaning."""
_MOST_CONTEXT = 1000


def search_files(
    env: BaseEnvironment,
    pattern: str,
    target: Literal["content", "files"] = "content",
    path: str = ".",
    file_glob: str | None = None,
    limit: int = 50,
    offset: int = 0,
    output_mode: Literal["content", "files_only", "count"] = "content",
    context: int = 0,
) -> SearchResult:
    r"""Search for lines that match a regular expression, or for files by name.

    Hidden and ignored files are searched too; .git, .hg, .svn, binary files (with NUL bytes) and the targets of
    symbolic links are not.

    Args:
        pattern: With target="content" a regular expression, matched with each line: . [...] \d \w \s \b ^ $ | ()
            * + ? {m,n} and (?i) at the start, without look-around and back references. With target="files" a
            glob, such as "*.py" over names or "src/**/*.py" over paths.
        target: "content" for lines in files, "files" for file names.
        path: Directory or file to search; "~" is the home directory.
        file_glob: Search only files this glob matches, such as "*.{py,toml}".
        limit: Most matches to return; of lines, 50,000 are.
        offset: How many matches to leave out first.
        output_mode: With target="content": "content" for lines, "files_only" for the files that have any, "count"
            for files with their number of matching lines.
        context: Lines to give before and after each matching line, at most 1,000.

    Returns:
        A dict with matches, sorted by path and line; total_count (lines, or files with "files_only" and "files")
        and truncated (whether there are matches beyond these). A match has path, and by mode line and content
        (over 2000 characters cut with a note), before and after (lists, if context was asked for), or count.
        skipped lists files left out because their names are not UTF-8, the first 100 of them. An invalid pattern, a
        missing path or more than 250,000 files give a dict with error alone.

    Raises:
        ValueError: A number is negative, limit is 0, context is over 1,000, target or output_mode is unknown, or a
            glob is empty or too long (1,000 characters).
    """
    if context > _MOST_CONTEXT:
        raise ValueError(f"context must be at most {_MOST_CONTEXT:,} lines, not {context:,}")
    if limit < 1 or offset < 0 or context < 0:
        raise ValueError("limit must be at least 1, offset and context at least 0")
    if target not in ("content", "files") or output_mode not in ("content", "files_only", "count"):
        raise ValueError(
            f"target is 'content' or 'files', output_mode 'content', 'files_only' or 'count': "
            f"not {target!r} and {output_mode!r}"
        )
    where = target_path(env, path)
    names = NamePattern.parse(file_glob) if file_glob else None
    try:
        if target == "files":
            return _search_names(env, where, path, NamePattern.parse(pattern), names, offset, limit)
        if output_mode == "content":
            limit = min(limit, _MOST_LINES)
        query = ContentQuery(where, path, parse_pattern(pattern), names, offset, limit, output_mode, context)
        return search_content(env, query)
    except (SearchError, PatternError) as error:
        return {"error": str(error)}
    except ToolInterruptedError:
        return {"error": f"searching {path} was interrupted"}


def _search_names(
    env: BaseEnvironment,
    where: str,
    shown: str,
    pattern: NamePattern,
    names: NamePattern | None,
    offset: int,
    limit: int,
) -> SearchResult:
    command = list_command(where, pattern.prefilters())
    header, body = run_search(env, where, shown, command)
    paths = [path.removeprefix("./") for path in body.split("\0") if path]
    if header == "file":
        paths = [posixpath.basename(where)]
    chosen = sorted(_matching(paths, [pattern] if names is None else [pattern, names]))
    skipped = [path for path in chosen if not is_decoded(path)]
    chosen = [path for path in chosen if is_decoded(path)]
    result = SearchResult(
        matches=[Match(path=shown_path(shown, header == "file", path)) for path in chosen[offset : offset + limit]],
        total_count=len(chosen),
        truncated=offset + limit < len(chosen),
    )
    return with_skipped(result, skipped)


def _matching(paths: Iterable[str], patterns: Sequence[NamePattern]) -> Iterator[str]:
    for path in paths:
        raise_if_interrupted()
        if all(pattern.matches(path) for pattern in patterns):
            yield path
