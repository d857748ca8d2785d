"""Search file contents: count in all files first, then fetch the lines that are wanted and no others."""

from __future__ import annotations

import itertools
import posixpath
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast, get_args

from environments.base import BaseEnvironment
from hermes_tools.files.long_lines import cut_line, quoted
from hermes_tools.files.target_paths import failed_command_error
from hermes_tools.interruption import raise_if_interrupted
from hermes_tools.search.engines import (
    NAME_END,
    SECTION,
    Engine,
    LineRequest,
    batch_command,
    count_command,
    lines_command,
    ranges_command,
)
from hermes_tools.search.name_pattern import NamePattern
from hermes_tools.search.pattern import SearchPattern
from hermes_tools.search.results import (
    Match,
    SearchError,
    SearchResult,
    is_decoded,
    printed_number,
    run_search,
    shown_path,
    with_skipped,
)

_MOST_SKIPPED = 1000
"""Lines of a file that may be sent and dropped here, to search all files with one process."""
_LINE_OVERHEAD = 10
"""Characters that a line counts for beyond its own, as empty ones are shown too."""


@dataclass(frozen=True, slots=True)
class ContentQuery:
    """The checked arguments of a content search."""

    where: str
    """The path as the target sees it."""
    shown: str
    """The path as the caller gave it, before which found paths are shown."""
    pattern: SearchPattern
    names: NamePattern | None
    offset: int
    limit: int
    output_mode: str
    context: int


@dataclass(frozen=True, slots=True)
class _Found:
    """The files that match, sorted by path."""

    engine: Engine
    is_file: bool
    counts: list[tuple[str, int]]
    skipped: list[str]


def search_content(env: BaseEnvironment, query: ContentQuery, engine: Engine | None = None) -> SearchResult:
    """Search for lines, with the given program or the best the target has."""
    found = _count(env, query, engine)
    last = query.offset + query.limit
    by_file = query.output_mode != "content"
    matching_lines = sum(count for _, count in found.counts)
    entries = len(found.counts) if by_file else matching_lines
    total = len(found.counts) if query.output_mode == "files_only" else matching_lines
    if by_file:
        matches = [
            Match(path=shown_path(query.shown, found.is_file, path), count=count)
            for path, count in found.counts[query.offset : last]
        ]
        if query.output_mode == "files_only":
            matches = [Match(path=match["path"]) for match in matches]
    else:
        matches = _lines(env, query, found)
    result = SearchResult(matches=matches, total_count=total, truncated=last < entries)
    return with_skipped(result, found.skipped)


def _count(env: BaseEnvironment, query: ContentQuery, engine: Engine | None) -> _Found:
    prefilters = query.names.prefilters() if query.names else []
    command = count_command(query.where, query.pattern, prefilters, engine)
    header, body = run_search(env, query.where, query.shown, command)
    kind, _, used = header.partition(" ")
    if used not in get_args(Engine):
        raise SearchError(f"searching {query.shown} gave no answer but {quoted(header)}")
    found = list(_counted(body))
    if kind == "file":
        found = [(posixpath.basename(query.where), count) for _, count in found]
    chosen = sorted(pair for pair in found if query.names is None or query.names.matches(pair[0]))
    return _Found(
        cast("Engine", used),
        kind == "file",
        [pair for pair in chosen if is_decoded(pair[0])],
        [path for path, _ in chosen if not is_decoded(path)],
    )


def _counted(output: str) -> Iterator[tuple[str, int]]:
    """Read what `count_command` printed: each path, NUL, the number of its lines and a newline."""
    at = 0
    while at < len(output):
        raise_if_interrupted()
        path_end = output.find("\0", at)
        end = output.find("\n", path_end)
        if path_end < 0 or end < 0:
            raise SearchError("the search program of the target printed a file without its number of lines")
        if count := printed_number(output[path_end + 1 : end]):
            yield output[at:path_end].removeprefix("./"), count
        at = end + 1


def _lines(env: BaseEnvironment, query: ContentQuery, found: _Found) -> list[Match]:
    requests = _requests(found.counts, query.offset, query.limit)
    if not requests:
        return []
    directory = posixpath.dirname(query.where) if found.is_file else query.where
    files: list[tuple[LineRequest, list[tuple[int, str]]]] = []
    for request, section in zip(requests, _fetched(env, query, directory, requests, found.engine), strict=False):
        numbered = [line.partition(":") for line in section[: request.count]]
        files.append((request, [(printed_number(number), cut_line(text)) for number, _, text in numbered]))
    around = _surroundings(env, query, directory, files) if query.context else {}
    matches = []
    room = env.settings.max_output_bytes
    for request, lines in files:
        known = around.get(request.path, {})
        for number, text in lines:
            raise_if_interrupted()
            match = Match(path=shown_path(query.shown, found.is_file, request.path), line=number, content=text)
            if query.context:
                match["before"] = _present(known, range(number - 1, number - 1 - query.context, -1))[::-1]
                match["after"] = _present(known, range(number + 1, number + 1 + query.context))
                # The same lines are shown again for each match that they are near to.
                room -= sum(len(line) + _LINE_OVERHEAD for line in (*match["before"], *match["after"]))
            if room < 0:
                raise _too_long(query.shown)
            matches.append(match)
    return matches


def _fetched(
    env: BaseEnvironment, query: ContentQuery, directory: str, requests: Sequence[LineRequest], engine: Engine
) -> list[list[str]]:
    """Return the wanted lines of each file."""
    if engine == "posix" or requests[0].skip > _MOST_SKIPPED:
        return _sections(env, query.shown, lines_command(directory, query.pattern, requests, engine))
    output = _output(env, query.shown, batch_command(directory, query.pattern, requests, engine))
    sections = []
    at = 0
    for request in requests:
        start = f"./{request.path}{NAME_END}"
        lines = []
        while output.startswith(start, at):
            end = output.find("\n", at + len(start))
            if end < 0:
                raise SearchError(f"the search program of the target printed a line of {request.path} in part")
            lines.append(output[at + len(start) : end])
            at = end + 1
        sections.append(lines[request.skip :])
    return sections


def _requests(counts: Sequence[tuple[str, int]], offset: int, limit: int) -> list[LineRequest]:
    """Choose the files that hold the lines from `offset` on, and which of their lines are among these."""
    requests = []
    first = 0
    for path, count in counts:
        skip = max(0, offset - first)
        wanted = min(count, offset + limit - first) - skip
        if wanted > 0:
            requests.append(LineRequest(path, skip, wanted))
        first += count
    return requests


def _surroundings(
    env: BaseEnvironment,
    query: ContentQuery,
    directory: str,
    files: Sequence[tuple[LineRequest, list[tuple[int, str]]]],
) -> dict[str, dict[int, str]]:
    """Return, for each file, the lines around its matches by number."""
    ranges: list[tuple[str, list[tuple[int, int]]]] = []
    for request, lines in files:
        spans: list[tuple[int, int]] = []
        for number, _ in lines:
            first, last = max(1, number - query.context), number + query.context
            if spans and first <= spans[-1][1] + 1:
                spans[-1] = (spans[-1][0], last)
            else:
                spans.append((first, last))
        if spans:
            ranges.append((request.path, spans))
    known: dict[str, dict[int, str]] = {}
    for (path, spans), section in zip(
        ranges, _sections(env, query.shown, ranges_command(directory, ranges)), strict=False
    ):
        numbers = (number for first, last in spans for number in range(first, last + 1))
        known[path] = {number: cut_line(text[1:]) for number, text in zip(numbers, section, strict=False)}
    return known


def _present(known: dict[int, str], numbers: range) -> list[str]:
    """Return the lines with these numbers, up to the first that the file does not have."""
    return [known[number] for number in itertools.takewhile(known.__contains__, numbers)]


def _sections(env: BaseEnvironment, shown: str, command: str) -> list[list[str]]:
    """Return the lines of each file's part of the output."""
    sections: list[list[str]] = []
    for line in _output(env, shown, command).split("\n"):
        if line == SECTION:
            sections.append([])
        elif line and sections:
            sections[-1].append(line)
    return sections


def _output(env: BaseEnvironment, shown: str, command: str) -> str:
    result = env.internal.execute(command)
    if error := failed_command_error(result, f"searching {shown}"):
        raise SearchError(error)
    if result.omitted_bytes:
        raise _too_long(shown)
    return result.output


def _too_long(shown: str) -> SearchError:
    return SearchError(f"the lines found in {shown} are too long to return together: lower the limit or the context")
