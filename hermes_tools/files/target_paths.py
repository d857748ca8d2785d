"""Paths of the target for the file tools, and errors for missing files."""

from __future__ import annotations

import heapq
import posixpath
import shlex
from collections.abc import Iterable
from difflib import SequenceMatcher

from environments.base import BaseEnvironment
from environments.result import CommandResult
from hermes_tools.interruption import raise_if_interrupted

_LONGEST_PATH = 4096
"""PATH_MAX: the kernel's limit."""
_COMPARED_CHARACTERS = 100
"""Limit for difflib, whose time grows with the cube of the length if few different characters repeat."""
_COMPARED_FULLY = 30
_LISTED_NAMES = 5000
"""Limit of directory entries in the search for near misses."""


def target_path(env: BaseEnvironment, path: str) -> str:
    """Return a path for the target: absolute, or with a leading `~` for the target user's home.

    Raises:
        ValueError: The path is empty, has more than 4,096 characters or has a NUL character.
    """
    if not path or "\0" in path:
        raise ValueError(f"path must be a non-empty string without NUL characters, not {path!r}")
    if len(path) > _LONGEST_PATH:
        raise ValueError(f"path must be at most {_LONGEST_PATH:,} characters, not {len(path):,}")
    if path == "~" or path.startswith("~/"):
        return f"~{_tidy(path[1:])}"
    return _tidy(posixpath.join(env.cwd, path))


def _tidy(path: str) -> str:
    """Remove redundant parts. `..` may matter behind a link, and so may a final slash."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    end = "/" if parts and path.endswith("/") else ""
    return f"/{'/'.join(parts)}{end}" if path else ""


def shell_word(path: str) -> str:
    """Quote a path for a shell command, except a leading `~`, which the target's shell resolves."""
    if path == "~":
        return '"$HOME"'
    if path.startswith("~/"):
        return f'"$HOME"/{shlex.quote(path[2:])}' if path[2:] else '"$HOME"/'
    return shlex.quote(f"./{path}" if path.startswith("-") else path)


def missing_file_error(env: BaseEnvironment, path: str) -> str:
    """Return the error for a missing `path` (from `target_path`), with the closest existing names."""
    directory, name = posixpath.split(path.rstrip("/"))
    listing = env.internal.execute(
        f"if [ -d {shell_word(directory or '.')} ]; then echo directory; "
        f"ls -a {shell_word(directory or '.')} 2>/dev/null | head -n {_LISTED_NAMES}; fi"
    )
    names = listing.output.split("\n")
    if names[0] != "directory":
        return f"no such file: {path} (there is no directory {directory})"
    near = near_misses(name, names[1 : _LISTED_NAMES + 1], most=3, cutoff=0.5)
    return f"no such file: {path}" + (f"; close to it in {directory}: {', '.join(near)}" if near else "")


def failed_command_error(result: CommandResult, doing: str) -> str | None:
    """Return the error of a tool's internal shell command, or None for success."""
    if result.timed_out:
        return f"{doing} timed out after {result.duration_seconds:.0f} s"
    if result.interrupted:
        return f"{doing} was interrupted"
    if result.exit_code:
        return f"{doing} failed: {result.output.strip() or f'exit code {result.exit_code}'}"
    return None


def near_misses(wanted: str, candidates: Iterable[str], most: int, cutoff: float) -> list[str]:
    """Return the candidates most similar to `wanted`, the best first, as `difflib.get_close_matches` does, but cheaper.

    Only the beginnings of long texts are compared. The full comparison is reserved for candidates with most characters
    in common with `wanted`, in any order.

    Args:
        wanted: The misspelt text.
        candidates: Existing texts.
        most: Number of results.
        cutoff: Lowest similarity, from 0 to 1.
    """
    matcher = SequenceMatcher(b=wanted[:_COMPARED_CHARACTERS])
    likely = []
    for candidate in candidates:
        raise_if_interrupted()
        matcher.set_seq1(candidate[:_COMPARED_CHARACTERS])
        if matcher.real_quick_ratio() >= cutoff and (bound := matcher.quick_ratio()) >= cutoff:
            likely.append((bound, candidate))
    near = []
    for _, candidate in heapq.nlargest(_COMPARED_FULLY, likely):
        matcher.set_seq1(candidate[:_COMPARED_CHARACTERS])
        if (ratio := matcher.ratio()) >= cutoff:
            near.append((ratio, candidate))
    return [candidate for _, candidate in heapq.nlargest(most, near)]
