"""Search for text in files, or for files by name."""

from __future__ import annotations

from typing import Literal, get_args

from environments.base import BaseEnvironment
from hermes_tools.files.target_paths import target_path
from hermes_tools.interruption import ToolInterruptedError
from hermes_tools.search.content import ContentQuery, search_content
from hermes_tools.search.engines import OutputMode, PatternError, names_command
from hermes_tools.search.name_pattern import NamePattern
from hermes_tools.search.output import SearchError, SearchOutput, too_many_files
from hermes_tools.search.results import Match, SearchResult, shown_path, with_skipped

SearchTarget = Literal["content", "files"]
_MOST_LINES = 50_000
"""Matching lines that one call returns; a larger limit has this meaning."""
_MOST_CONTEXT = 1000


def search_files(
    env: BaseEnvironment,
    pattern: str,
    target: SearchTarget = "content",
    path: str = ".",
    file_glob: str | None = None,
    limit: int = 50,
    offset: int = 0,
    output_mode: OutputMode = "content",
    context: int = 0,
) -> SearchResult:
    r"""Search for lines that match a regular expression, or for files by name.

    Hidden and ignored files are searched too; .git, .hg, .svn, binary files and the targets of symbolic links are
    not.

    Args:
        pattern: With target="content" a regular expression, matched with each line: ripgrep's where the target has
            ripgrep, else that of grep -E, for which (?i) at the start ignores case. With target="files" a glob,
            such as "*.py" over names or "src/**/*.py" over paths.
        target: "content" for lines in files, "files" for file names.
        path: Directory or file to search; "~" is the home directory.
        file_glob: Search only files this glob matches, such as "*.{py,toml}".
        limit: Most matches to return; of lines, 50,000 are.
        offset: How many matches to leave out first.
        output_mode: With target="content": "content" for lines, "files_only" for the files that have any, "count"
            for files with their number of matching lines.
        context: Lines to give before and after each matching line, at most 1,000.

    Returns:
        A dict with matches, sorted by path and line; total_count (lines, or files with "files_only" and "files");
        truncated (whether there are matches beyond these); and with target="content" engine: "ripgrep" or "grep".
        A match has path, and by mode line and content (over 2000 characters cut with a note), before and after
        (lists, if context was asked for), or count. Of more lines than fit into max_output_bytes, the first are
        searched for the page and counted. skipped lists files left out because their names are not UTF-8, the
        first 100 of them. A pattern that the engine refuses, a missing path or more than 250,000 files give a dict
        with error alone.

    Raises:
        ValueError: A number is negative, limit is 0, context is over 1,000, target or output_mode is unknown, or a
            glob is empty or too long (1,000 characters).
    """
    for name, number, least in (("limit", limit, 1), ("offset", offset, 0), ("context", context, 0)):
        if number < least:
            raise ValueError(f"{name} is {number}; give a number from {least} on")
    if context > _MOST_CONTEXT:
        raise ValueError(f"context must be at most {_MOST_CONTEXT:,} lines, not {context:,}")
    for name, choice, choices in (
        ("target", target, get_args(SearchTarget)),
        ("output_mode", output_mode, get_args(OutputMode)),
    ):
        if choice not in choices:
            raise ValueError(f"{name} is {choice!r}; allowed: {', '.join(map(repr, choices))}")
    where = target_path(env, path)
    names = NamePattern.parse(file_glob) if file_glob else None
    try:
        if target == "files":
            return _search_names(env, where, path, NamePattern.parse(pattern), names, offset, limit)
        if output_mode == "content":
            limit = min(limit, _MOST_LINES)
        return search_content(env, ContentQuery(where, path, pattern, names, offset, limit, output_mode, context))
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
    def is_wanted(path: str) -> bool:
        return pattern.matches(path) and (names is None or names.matches(path))

    found = SearchOutput(env, where, shown, "names", is_wanted)
    found.read(names_command(where, pattern.prefilters()))
    if not found.is_complete:
        raise too_many_files(env, shown)
    paths = sorted(record.path for record in found.records if record.path not in found.skipped)
    result = SearchResult(
        matches=[Match(path=shown_path(shown, found.is_file, path)) for path in paths[offset : offset + limit]],
        total_count=len(paths),
        truncated=offset + limit < len(paths),
    )
    return with_skipped(result, found.skipped)
