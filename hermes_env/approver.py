"""Asking the person at the terminal whether something may be done."""

from __future__ import annotations

import os
import select
import sys
import threading
from collections.abc import Callable

import typer

from environments.approvals import Approver, CommandRequest, Deny, Request, ScriptRequest

_POLL = 0.1
"""Seconds between looks whether the answer is still wanted."""
_SHOWN = 4000
"""Characters of a command or script that are shown."""
_one_at_a_time = threading.Lock()


def approver(cancelled: Callable[[], bool]) -> Approver:
    """Return what asks the person at the terminal, and denies where there is none.

    Args:
        cancelled: Says that an answer is no longer wanted.
    """

    def approve(request: Request, question: str) -> bool | Deny:
        if not (sys.stdin and sys.stdin.isatty() and sys.stderr.isatty()):
            return Deny(f"it needs approval ({question}), and standard input is no terminal to ask on")
        with _one_at_a_time:
            return not cancelled() and _consents(request, question, cancelled)

    return approve


def _consents(request: Request, question: str, cancelled: Callable[[], bool]) -> bool:
    typer.secho(f"\nhermes-env: approval is asked for: {visible(question)}", fg="yellow", err=True)
    typer.echo(visible(asked_about(request)), err=True)
    return consents("Go on? [y/N] ", cancelled)


def consents(question: str, cancelled: Callable[[], bool]) -> bool:
    """Ask the person at the terminal a question, and return whether the answer is yes.

    Args:
        question: Shown as it is.
        cancelled: Returns True once the answer is no longer wanted.
    """
    typer.echo(question, nl=False, err=True)
    return _line(cancelled).strip().lower() in ("y", "yes")


def asked_about(request: Request) -> str:
    """Return what is to be approved, as text of a bounded length."""
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


def visible(text: str) -> str:
    """Return a text with what a terminal would obey, or would show as something else, written out."""
    return "".join(
        char if char.isprintable() or char == "\n" else char.encode("unicode_escape").decode() for char in text
    )


def _line(cancelled: Callable[[], bool]) -> str:
    """Read one line, of which a terminal hands over a whole one at once; nothing when it is no longer wanted.

    `input` would hold a lock on standard input that Python waits for when it ends.
    """
    while not cancelled():
        if select.select([sys.stdin.fileno()], [], [], _POLL)[0]:
            return os.read(sys.stdin.fileno(), 1000).decode(errors="replace")
    return ""
