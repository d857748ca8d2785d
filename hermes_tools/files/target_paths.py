"""How the file tools name files in the target, and what they say about a file that is not there."""

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
"""PATH_MAX: the kernel takes no longer ones."""
_COMPARED_CHARACTERS = 100
"""The time difflib takes grows with the cube of the length, where few different characters come again and again."""
_COMPARED_FULLY = 30
_LISTED_NAMES = 5000
"""How many names of a directory are looked at for a near miss."""


def target_path(env: BaseEnvironment, path: str) -> str:
    """Return `path` as the target is to see it: absolute, or starting with `~` for the target user's home.

    Raises:
        ValueError: The path is empty, has more than 4,096 characters or holds a NUL character.
    """
    if not path or "\0" in path:
        raise ValueError(f"path must be a non-empty string without NUL characters, not {path!r}")
    if len(path) > _LONGEST_PATH:
        raise ValueError(f"path must be at most {_LONGEST_PATH:,} characters, not {len(path):,}")
    if path == "~" or path.startswith("~/"):
        return f"~{_tidy(path[1:])}"
    return _tidy(posixpath.join(env.cwd, path))


def _tidy(path: str) -> str:
    """Take out what makes no difference; `..` may, behind a link, and so may a slash at the end."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    end = "/" if parts and path.endswith("/") else ""
    return f"/{'/'.join(parts)}{end}" if path else ""


def shell_word(path: str) -> str:
    """Quote a path for a shell command, leaving a leading `~` for the target's own home."""
    if path == "~":
        return '"$HOME"'
    if path.startswith("~/"):
        return f'"$HOME"/{shlex.quote(path[2:])}' if path[2:] else '"$HOME"/'
    return shlex.quote(f"./{path}" if path.startswith("-") else path)


def missing_file_error(env: BaseEnvironment, path: str) -> str:
    """Say that `path` (from `target_path`) does not exist, and name the closest names that do."""
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
    """Say why a tool's own shell command did not end well, or return None when it did."""
    if result.timed_out:
        return f"{doing} timed out after {result.duration_seconds:.0f} s"
    if result.interrupted:
        return f"{doing} was interrupted"
    if result.exit_code:
        return f"{doing} failed: {result.output.strip() or f'exit code {result.exit_code}'}"
    return None


def near_misses(wanted: str, candidates: Iterable[str], most: int, cutoff: float) -> list[str]:
    """Return the candidates most like `wanted`, the best first: `difflib.get_close_matches`, but for its cost.

    Only the beginnings of long texts are compared, and the full comparison is for those that have most characters
    in common with `wanted`, in whatever order.

    Args:
        wanted: What was meant.
        candidates: What there is.
        most: How many to return.
        cutoff: How alike they must be at least, from 0 to 1.
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
