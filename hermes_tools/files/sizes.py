"""How large files may be that are written, or brought here to be changed."""

from __future__ import annotations

MAX_BYTES = 10_000_000
"""Bytes of a file that `patch` changes, and of what it makes of it; characters of its arguments."""
MAX_LINES = 500_000
"""Lines of such a file: what they cost here does not depend on their length alone."""
MAX_WRITTEN_BYTES = 30_000_000
"""Bytes that `write_file` writes. What a script sends comes in one message, which is not much longer."""


class FileSizeError(Exception):
    """A file is too large. The message names the bound, and not the file."""


def is_too_large(text: str) -> bool:
    """Whether an argument of `patch` has more characters or lines than a file that it changes."""
    return len(text) > MAX_BYTES or text.count("\n") > MAX_LINES


def check_size(size: int, lines: int) -> None:
    """Refuse what is too large to be changed here.

    Args:
        size: Bytes that it has, or characters, which are no more.
        lines: Lines that it has.

    Raises:
        FileSizeError: It is too large.
    """
    if size > MAX_BYTES:
        raise FileSizeError(f"more than {MAX_BYTES:,} bytes, which is the most that patch changes")
    if lines > MAX_LINES:
        raise FileSizeError(f"more than {MAX_LINES:,} lines, which is the most that patch changes")
