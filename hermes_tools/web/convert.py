"""Conversion of HTML and PDFs into text by a child process, killed at the deadline."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal

from environments.secrets import safe_variables
from hermes_tools.interruption import Deadline

if TYPE_CHECKING:
    from hermes_tools.web.convert_page import Order

_PROGRAM = Path(__file__).with_name("convert_page.py")
_SLOTS = threading.BoundedSemaphore(max(2, min(8, os.cpu_count() or 1)))
"""Limits the pages converted at once: each takes a core, and memory."""


class ConversionError(Exception):
    """The page cannot be converted into text. The message is for the caller."""


def convert(
    kind: Literal["html", "pdf"],
    body: BinaryIO,
    url: str,
    charsets: list[str],
    as_markdown: bool,
    most_characters: int,
    deadline: Deadline,
) -> tuple[str, str]:
    """Return the title and the text of a page. A longer text is cut behind the wanted characters and one more.

    Args:
        kind: The type of the body.
        body: A file with the body.
        url: The URL of the page, for relative links.
        charsets: Possible charsets of an HTML page, the likeliest first.
        as_markdown: Write links, headings, lists and tables as Markdown.
        most_characters: The number of wanted characters.
        deadline: Kills the child process.

    Raises:
        ConversionError: The page cannot be read.
        DeadlineError: The time is up.
        ToolInterruptedError: The caller's scope was cancelled.
    """
    order: Order = {
        "kind": kind,
        "body": body.fileno(),
        "url": url,
        "charsets": charsets,
        "as_markdown": as_markdown,
        "most_characters": most_characters,
        "seconds": deadline.remaining(),
    }
    with deadline.held(_SLOTS), tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as orders:
        orders.write(json.dumps(order).encode())  # as an argument, the URL would be in the process list
        orders.seek(0)
        exit_code = _run(orders, output, body.fileno(), deadline)
        output.seek(0)
        answer = _read(output.read())
    if "error" in answer:
        raise ConversionError(answer["error"])
    if exit_code or not {"title", "content"} <= answer.keys():
        raise ConversionError(f"the page cannot be read: the reader process ended with exit code {exit_code}")
    return answer["title"], answer["content"]


def _run(orders: BinaryIO, output: BinaryIO, body: int, deadline: Deadline) -> int:
    with subprocess.Popen(
        [sys.executable, "-P", str(_PROGRAM)],
        stdin=orders,
        stdout=output,
        stderr=subprocess.DEVNULL,
        pass_fds=[body],
        env=safe_variables(),
        start_new_session=True,  # the caller handles Ctrl-C
    ) as process:
        try:
            while True:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    return process.wait(deadline.poll_seconds())
        finally:
            process.kill()


def _read(output: bytes) -> dict[str, str]:
    """Return the texts in the output of the child process; empty for incomplete or foreign output."""
    try:
        answer = json.loads(output)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(answer, dict):
        return {}
    return {key: value for key, value in answer.items() if isinstance(value, str)}
