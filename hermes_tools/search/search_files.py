"""Search for text in files, or for files by name."""

from __future__ import annotations

import itertools
import posixpath
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NotRequired, TypedDict, get_args

from environments.base import BaseEnvironment
from hermes_tools.files.lines import cut_line
from hermes_tools.files.target_paths import target_path
from hermes_tools.interruption import ToolInterruptedError, raise_if_interrupted
from hermes_tools.search.engines import Engine, OutputMode, PatternError, content_command, names_command
from hermes_tools.search.name_pattern import NamePattern
from hermes_tools.search.output import Form, SearchError, SearchOutput, SearchRecord, too_many_files

SearchTarget = Literal["content", "files"]
_MAX_LINES = 50_000
"""Limit of matching lines in a call; a larger `limit` has this meaning."""
_MAX_CONTEXT = 1000
_MAX_SKIPPED = 100
"""Skipped files that are listed."""
_LINE_OVERHEAD = 10
"""Characters counted for a line beyond its text, as empty lines are shown too."""


class Match(TypedDict):
    """A match. The keys depend on `target` and `output_mode`."""

    path: str
    line: NotRequired[int]
    content: NotRequired[str]
    count: NotRequired[int]
    before: NotRequired[list[str]]
    after: NotRequired[list[str]]


class SearchResult(TypedDict):
    """Result of `search_files`: `error` alone if it failed."""

    matches: NotRequired[list[Match]]
    total_count: NotRequired[int]
    truncated: NotRequired[bool]
    engine: NotRequired[Engine]
    skipped: NotRequired[list[str]]
    error: NotRequired[str]


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
        pattern: With target="content" a regular expression, matched line by line: of ripgrep where the target has it,
            else of grep -E. Escape ( [ . and the like to mean themselves; (?i) at the start ignores case. With
            target="files" a glob: "*.py" for names, "src/**/*.py" for paths.
        target: "content" for lines in files, "files" for file names.
        path: Directory or file to search; `~` is the home directory.
        file_glob: With target="content": search only files that this glob matches, such as "*.py" or "*.{yaml,yml}".
        limit: Matches to return at most, and never more than 50,000 lines.
        offset: Matches to leave out first, to go on after a truncated result.
        output_mode: With target="content": "content" for lines, "files_only" for the files that have any, "count" for
            the number of matching lines in each file.
        context: Lines to return before and after each matching line, at most 1,000.

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
    if context > _MAX_CONTEXT:
        raise ValueError(f"context must be at most {_MAX_CONTEXT:,} lines, not {context:,}")
    for name, choice, choices in (
        ("target", target, get_args(SearchTarget)),
        ("output_mode", output_mode, get_args(OutputMode)),
    ):
        if choice not in choices:
            raise ValueError(f"{name} is {choice!r}; allowed: {', '.join(map(repr, choices))}")
    names = NamePattern.parse(file_glob) if file_glob else None
    search = _Search(env, target_path(env, path), path, names, offset, limit)
    try:
        if target == "files":
            return search.file_names(NamePattern.parse(pattern))
        return search.content(pattern, output_mode, context)
    except (SearchError, PatternError) as error:
        return {"error": str(error)}
    except ToolInterruptedError:
        return {"error": f"searching {path} was interrupted"}


@dataclass(frozen=True, slots=True)
class _Search:
    env: BaseEnvironment
    where: str
    """The path as the target sees it."""
    shown: str
    """The path as the caller gave it, shown in front of found paths."""
    names: NamePattern | None
    """The glob of the files to search; None for all."""
    offset: int
    limit: int

    def file_names(self, pattern: NamePattern) -> SearchResult:
        """Search for files by name. Raises SearchError and ToolInterruptedError."""
        found = self._output("names", lambda path: pattern.matches(path) and self._is_wanted(path))
        found.read(names_command(self.where, pattern.prefilters()))
        if not found.is_complete:
            raise too_many_files(self.env, self.shown)
        paths = sorted(record.path for record in found.records if record.path not in found.skipped)
        last = self.offset + self.limit
        matches = [Match(path=self._shown_path(found, path)) for path in paths[self.offset : last]]
        result = SearchResult(matches=matches, total_count=len(paths), truncated=last < len(paths))
        return _with_skipped(result, found.skipped)

    def content(self, pattern: str, mode: OutputMode, context: int) -> SearchResult:
        """Search for lines, or for files with matching lines. Raises as `file_names`, and PatternError."""
        lines: Form = "groups" if context else "lines"
        form: Form = lines if mode == "content" else "counts" if mode == "count" else "files"
        found = self._output(form, self._is_wanted)
        prefilters = self.names.prefilters() if self.names else []
        found.read(content_command(self.where, pattern, prefilters, mode, context))
        records = sorted(record for record in found.records if record.path not in found.skipped)
        matches = [record for record in records if record.is_match]
        last = self.offset + (min(self.limit, _MAX_LINES) if mode == "content" else self.limit)
        page = matches[self.offset : last]
        if mode == "content":
            if not found.is_complete and last >= len(matches):
                raise self._too_long()
            shown = self._lines(found, page, records, context)
        elif not found.is_complete:
            raise too_many_files(self.env, self.shown)
        else:
            shown = [Match(path=self._shown_path(found, record.path)) for record in page]
        if mode == "count":
            for match, record in zip(shown, page, strict=True):
                match["count"] = record.number
        total = sum(record.number for record in matches) if mode == "count" else len(matches)
        result = SearchResult(matches=shown, total_count=total, truncated=last < len(matches), engine=found.engine)
        return _with_skipped(result, found.skipped)

    def _output(self, form: Form, is_wanted: Callable[[str], bool]) -> SearchOutput:
        return SearchOutput(self.env, self.where, self.shown, form, is_wanted)

    def _is_wanted(self, path: str) -> bool:
        return self.names is None or self.names.matches(path)

    def _shown_path(self, found: SearchOutput, path: str) -> str:
        """Return a path of the search, relative to its directory, as the caller wrote that directory."""
        if found.is_file:
            return self.shown
        return path if self.shown in (".", "./") else posixpath.join(self.shown, path)

    def _lines(
        self, found: SearchOutput, page: Sequence[SearchRecord], records: Sequence[SearchRecord], context: int
    ) -> list[Match]:
        around: dict[str, dict[int, str]] = defaultdict(dict)
        if context:
            of_page = {match.path for match in page}
            for record in records:
                if record.path in of_page:
                    around[record.path][record.number] = _text(record)
        matches = []
        room = self.env.settings.max_output_bytes
        for record in page:
            raise_if_interrupted()
            match = Match(path=self._shown_path(found, record.path), line=record.number, content=_text(record))
            if context:
                known, number = around[record.path], record.number
                match["before"] = _present(known, range(number - 1, number - 1 - context, -1))[::-1]
                match["after"] = _present(known, range(number + 1, number + 1 + context))
                # A line is shown again for each match nearby.
                room -= sum(len(line) + _LINE_OVERHEAD for line in (*match["before"], *match["after"]))
            if room < 0:
                raise self._too_long()
            matches.append(match)
        return matches

    def _too_long(self) -> SearchError:
        return SearchError(
            f"the lines found in {self.shown} are too long to return together: lower the limit or the context, or "
            "narrow the path or file_glob"
        )


def _text(record: SearchRecord) -> str:
    return cut_line(record.text.decode("utf-8", "replace"))


def _present(known: Mapping[int, str], numbers: range) -> list[str]:
    """Return the lines with these numbers, up to the first missing line."""
    return [known[number] for number in itertools.takewhile(known.__contains__, numbers)]


def _with_skipped(result: SearchResult, skipped: Iterable[str]) -> SearchResult:
    """Return a result with the first skipped files, if there are any."""
    if listed := sorted(skipped)[:_MAX_SKIPPED]:
        result["skipped"] = listed
    return result
