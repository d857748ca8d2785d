"""Search file contents."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from environments.base import BaseEnvironment
from hermes_tools.files.lines import cut_line
from hermes_tools.interruption import raise_if_interrupted
from hermes_tools.search.engines import OutputMode, content_command
from hermes_tools.search.name_pattern import NamePattern
from hermes_tools.search.output import Form, Record, SearchError, SearchOutput, too_many_files
from hermes_tools.search.results import Match, SearchResult, shown_path, with_skipped

_LINE_OVERHEAD = 10
"""Characters that a line counts for beyond its own, as empty ones are shown too."""


@dataclass(frozen=True, slots=True)
class ContentQuery:
    """The checked arguments of a content search."""

    where: str
    """The path as the target sees it."""
    shown: str
    """The path as the caller gave it, before which found paths are shown."""
    pattern: str
    names: NamePattern | None
    offset: int
    limit: int
    output_mode: OutputMode
    context: int


def search_content(env: BaseEnvironment, query: ContentQuery) -> SearchResult:
    """Search for lines, or for the files that have some.

    Raises:
        PatternError: No engine takes the pattern.
        SearchError: The search cannot be done.
        ToolInterruptedError: The current scope was cancelled.
    """
    names, mode = query.names, query.output_mode
    lines: Form = "groups" if query.context else "lines"
    form: Form = lines if mode == "content" else "counts" if mode == "count" else "files"
    found = SearchOutput(env, query.where, query.shown, form, names.matches if names else lambda _: True)
    prefilters = names.prefilters() if names else []
    found.read(content_command(query.where, query.pattern, prefilters, mode, query.context))
    records = sorted(record for record in found.records if record.path not in found.skipped)
    matches = [record for record in records if record.is_match]
    last = query.offset + query.limit
    page = matches[query.offset : last]
    if mode == "content":
        if not found.is_complete and last >= len(matches):
            raise _too_long(query.shown)
        shown = _lines(env, query, found, page, records)
    elif not found.is_complete:
        raise too_many_files(env, query.shown)
    else:
        shown = [_file(query, found, record) for record in page]
    total = sum(record.number for record in matches) if mode == "count" else len(matches)
    result = SearchResult(matches=shown, total_count=total, truncated=last < len(matches), engine=found.engine)
    return with_skipped(result, found.skipped)


def _file(query: ContentQuery, found: SearchOutput, record: Record) -> Match:
    match = Match(path=shown_path(query.shown, found.is_file, record.path))
    if query.output_mode == "count":
        match["count"] = record.number
    return match


def _lines(
    env: BaseEnvironment, query: ContentQuery, found: SearchOutput, page: Sequence[Record], records: Sequence[Record]
) -> list[Match]:
    around: dict[str, dict[int, str]] = defaultdict(dict)
    if query.context:
        of_page = {match.path for match in page}
        for record in records:
            if record.path in of_page:
                around[record.path][record.number] = _text(record)
    matches = []
    room = env.settings.max_output_bytes
    for record in page:
        raise_if_interrupted()
        path = shown_path(query.shown, found.is_file, record.path)
        match = Match(path=path, line=record.number, content=_text(record))
        if query.context:
            known, number = around[record.path], record.number
            match["before"] = _present(known, range(number - 1, number - 1 - query.context, -1))[::-1]
            match["after"] = _present(known, range(number + 1, number + 1 + query.context))
            # The same lines are shown again for each match that they are near to.
            room -= sum(len(line) + _LINE_OVERHEAD for line in (*match["before"], *match["after"]))
        if room < 0:
            raise _too_long(query.shown)
        matches.append(match)
    return matches


def _text(record: Record) -> str:
    return cut_line(record.text.decode("utf-8", "replace"))


def _present(known: Mapping[int, str], numbers: range) -> list[str]:
    """Return the lines with these numbers, up to the first that the file does not have."""
    return [known[number] for number in itertools.takewhile(known.__contains__, numbers)]


def _too_long(shown: str) -> SearchError:
    return SearchError(
        f"the lines found in {shown} are too long to return together: lower the limit or the context, or narrow the "
        "path or file_glob"
    )
