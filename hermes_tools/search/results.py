"""What a search returns, and what all searches do with what the target printed."""

from __future__ import annotations

import posixpath
from typing import NotRequired, TypedDict

from environments.base import BaseEnvironment
from hermes_tools.files.target_paths import failed_command_error, missing_file_error


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
        SearchError: The place cannot be searched, or the output was too long.
    """
    result = env.execute_oneshot(command)
    if error := failed_command_error(result, f"searching {shown}"):
        raise SearchError(error)
    if result.omitted_bytes:
        raise SearchError(f"too many files match below {shown}: narrow the path or file_glob")
    header, _, body = result.output.partition("\n")
    if header == "missing":
        raise SearchError(missing_file_error(env, where))
    if header in ("special", "unreadable"):
        raise SearchError(f"{shown} cannot be searched: it is {header}")
    if header == "invalid":
        raise SearchError(f"the search program refused the pattern: {body.strip()}")
    return header, body


def shown_path(root: str, is_file: bool, path: str) -> str:
    """Return a found path, which is relative to the directory searched, as the caller is to see it."""
    if is_file:
        return root
    return path if root in (".", "./") else posixpath.join(root, path)


def is_decoded(path: str) -> bool:
    """Whether a path arrived as it is. One that is not UTF-8 has lost bytes, and cannot be asked for again."""
    return "\ufffd" not in path
