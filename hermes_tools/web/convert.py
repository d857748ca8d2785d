"""Having pages turned into text by a process that ends when its time does."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal

from environments.secrets import safe_variables
from hermes_tools.web.deadline import Deadline
from hermes_tools.web.fetch import Fetched
from hermes_tools.web.text import charsets

if TYPE_CHECKING:
    from hermes_tools.web.convert_page import Order

_PROGRAM = Path(__file__).with_name("convert_page.py")
_PLACES = threading.BoundedSemaphore(max(2, min(8, os.cpu_count() or 1)))
"""How many pages are converted at once: it takes a core, and memory."""


class ConversionError(Exception):
    """The page cannot be turned into text. The message is for the caller."""


def converted(
    kind: Literal["html", "pdf"],
    body: BinaryIO,
    page: Fetched,
    as_markdown: bool,
    most_characters: int,
    deadline: Deadline,
) -> tuple[str, str]:
    """Return the title of a page, and its text: of a longer one, one character more than is wanted.

    Args:
        kind: What it is.
        body: A file that holds it.
        page: What else is known of it.
        as_markdown: Whether links, headings, lists and tables are to be seen.
        most_characters: How many are wanted.
        deadline: Ends it.

    Raises:
        ConversionError: It cannot be read.
        OutOfTimeError: The time is up.
        ToolInterruptedError: Nobody waits any more.
    """
    order: Order = {
        "kind": kind,
        "body": body.fileno(),
        "url": page.url,
        "charsets": charsets(body, page.charset),
        "as_markdown": as_markdown,
        "most_characters": most_characters,
        "seconds": deadline.remaining(),
    }
    with deadline.held(_PLACES), tempfile.TemporaryFile() as said, _holding(order) as ordered:
        exit_code = _run(ordered, said, body.fileno(), deadline)
        said.seek(0)
        answer = _read(said.read())
    if "error" in answer:
        raise ConversionError(answer["error"])
    if exit_code or not {"title", "content"} <= answer.keys():
        raise ConversionError(f"it cannot be read: what reads it ended with exit code {exit_code}")
    return answer["title"], answer["content"]


@contextlib.contextmanager
def _holding(order: Order) -> Iterator[BinaryIO]:
    """Have an order in a file: as an argument, the URL would be in the process list."""
    with tempfile.TemporaryFile() as file:
        file.write(json.dumps(order).encode())
        file.seek(0)
        yield file


def _run(ordered: BinaryIO, said: BinaryIO, body: int, deadline: Deadline) -> int:
    with subprocess.Popen(
        [sys.executable, "-P", str(_PROGRAM)],
        stdin=ordered,
        stdout=said,
        stderr=subprocess.DEVNULL,
        pass_fds=[body],
        env=safe_variables(),
        start_new_session=True,  # a control-C is for us to act upon
    ) as process:
        try:
            while True:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    return process.wait(deadline.moment())
        finally:
            process.kill()


def _read(said: bytes) -> dict[str, str]:
    """Return what the process has said. It may have been cut off, or taken over by what it read."""
    try:
        answer = json.loads(said)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(answer, dict):
        return {}
    return {key: value for key, value in answer.items() if isinstance(value, str)}
