"""What a search returns, and what all searches do with what the target printed."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from typing import NotRequired, TypedDict

from environments.base import BaseEnvironment
from hermes_tools.files.long_lines import quoted
from hermes_tools.files.numbers import number
from hermes_tools.files.target_paths import failed_command_error, missing_file_error

MOST_FILES = 250_000
"""Files of which a search takes account; with paths of 40 characters, they fill the usual output cap."""
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
    """What `search_files` returns. Only `error` is there when it failed."""

    matches: NotRequired[list[Match]]
    total_count: NotRequired[int]
    truncated: NotRequired[bool]
    skipped: NotRequired[list[str]]
    error: NotRequired[str]


class SearchError(Exception):
    """The search cannot be done. The message is for the caller."""


def run_search(env: BaseEnvironment, where: str, shown: str, command: str) -> tuple[str, str]:
    """Run `list_command` or `count_command` and return the first line and the rest of what it printed.

    Raises:
        SearchError: The place cannot be searched, or there are more files than a search takes.
    """
    result = env.internal.execute(command)
    if error := failed_command_error(result, f"searching {shown}"):
        raise SearchError(error)
    header, _, body = result.output.partition("\n")
    if result.omitted_bytes or body.count("\0") > MOST_FILES:
        raise SearchError(
            f"too many files match below {shown}: a search takes at most {MOST_FILES:,}, and their list must fit into "
            f"max_output_bytes ({env.settings.max_output_bytes:,}); narrow the path or file_glob"
        )
    if header == "missing":
        raise SearchError(missing_file_error(env, where))
    if header in ("special", "unreadable"):
        raise SearchError(f"{shown} cannot be searched: it is {header}")
    if header == "invalid":
        raise SearchError(f"the search program refused the pattern: {body.strip()}")
    return header, body


def printed_number(text: str) -> int:
    """Return a number that a search program printed.

    Raises:
        SearchError: It is none. The target is not trusted to have the programs that it should have.
    """
    value = number(text.strip())
    if value is None:
        raise SearchError(f"the search program of the target printed {quoted(text)} in place of a number")
    return value


def with_skipped(result: SearchResult, skipped: Sequence[str]) -> SearchResult:
    """Return a result with the first files that were left out for their names, if any were."""
    if skipped:
        result["skipped"] = list(skipped[:_LISTED_SKIPPED])
    return result


def shown_path(root: str, is_file: bool, path: str) -> str:
    """Return a found path, which is relative to the directory searched, as the caller is to see it."""
    if is_file:
        return root
    return path if root in (".", "./") else posixpath.join(root, path)


def is_decoded(path: str) -> bool:
    """Whether a path arrived as it is. One that is not UTF-8 has lost bytes, and cannot be asked for again."""
    return "\ufffd" not in path
