"""Approvals at the terminal: asks the user a yes-or-no question."""

from __future__ import annotations

import os
import select
import sys
import threading
from collections.abc import Callable

import typer

from environments.approvals import Approver, CommandRequest, Deny, Request, ScriptRequest

_POLL = 0.1
"""Seconds between checks for a cancelled question."""
_SHOWN = 4000
"""Characters of a command or script in the question."""
_one_at_a_time = threading.Lock()


def approver(cancelled: Callable[[], bool]) -> Approver:
    """Return an approver that asks the user at the terminal, and denies without a terminal.

    Args:
        cancelled: Returns True once the answer is no longer needed.
    """

    def approve(request: Request, question: str) -> bool | Deny:
        if not (sys.stdin and sys.stdin.isatty() and sys.stderr.isatty()):
            return Deny(f"it needs approval ({question}), and standard input is no terminal to ask on")
        with _one_at_a_time:
            return not cancelled() and _ask(request, question, cancelled)

    return approve


def _ask(request: Request, question: str, cancelled: Callable[[], bool]) -> bool:
    typer.secho(f"\nhermes-env: approval is asked for: {escaped(question)}", fg="yellow", err=True)
    typer.echo(escaped(request_text(request)), err=True)
    return confirm("Go on? [y/N] ", cancelled)


def confirm(question: str, cancelled: Callable[[], bool]) -> bool:
    """Ask the user at the terminal a question, and return True for yes.

    Args:
        question: Printed unchanged.
        cancelled: Returns True once the answer is no longer needed.
    """
    typer.echo(question, nl=False, err=True)
    return _line(cancelled).strip().lower() in ("y", "yes")


def request_text(request: Request) -> str:
    """Return the command, script or tool call of a request, as text of a bounded length."""
    if isinstance(request, CommandRequest):
        text = request.command
    elif isinstance(request, ScriptRequest):
        text = request.code
    else:
        arguments = ", ".join(f"{name}={value!r}" for name, value in request.arguments.items())
        text = f"{request.tool}({arguments})"
    if len(text) <= _SHOWN:
        return text
    return f"{text[: _SHOWN // 2]}\n[{len(text) - _SHOWN} characters are not shown]\n{text[-_SHOWN // 2 :]}"


def escaped(text: str) -> str:
    """Return a text with terminal controls and other unprintable characters escaped."""
    return "".join(
        char if char.isprintable() or char == "\n" else char.encode("unicode_escape").decode() for char in text
    )


def _line(cancelled: Callable[[], bool]) -> str:
    """Read one line from the terminal; empty if the question was cancelled.

    `input` would hold a lock on standard input, and Python waits for this lock at exit.
    """
    while not cancelled():
        if select.select([sys.stdin.fileno()], [], [], _POLL)[0]:
            return os.read(sys.stdin.fileno(), 1000).decode(errors="replace")
    return ""
