"""The ready policy against destructive commands: tables of destruction and exfiltration, applied to parsed shell text.

The policy is no security boundary: the text of a command does not show everything that its program does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Literal

from environments.approvals.command import UNSEEN, Command
from environments.approvals.destruction import destructive_reason
from environments.approvals.exfiltration import exfiltration_reason, secret_copies
from environments.approvals.hooks import Answer, Ask, CommandRequest, Deny
from environments.approvals.reader import read
from environments.approvals.syntax import require_parser
from environments.log import logger

log = logger(__name__)


def destructive(command: str, cwd: str | None = None) -> str | None:
    """Return why shell text is destructive. No part of the text is run.

    Args:
        command: Shell text, read as bash and sh read it: quotes, variables set in the text, substitutions,
            here-documents, wrappers such as `sudo`, `sh -c` and `xargs`.
        cwd: The working directory, against which relative paths are resolved; None if not known.

    Returns:
        The reason, for people and models; None for text without a known destructive command. Text that could run
        anything, such as a download piped into a shell, and text too long or too deeply nested, has a reason too. The
        time is bounded for any text.

    Raises:
        MissingExtraError: The extra `approvals` is not installed.
    """
    require_parser("judging commands")
    return next(findings(command, cwd), None)


def findings(command: str, cwd: str | None = None) -> Iterator[str]:
    """Return all reasons of `destructive`, the surest first. Arguments are the same."""
    try:
        yield from _found(command, cwd or "")
    except Exception as error:  # fail closed: a fault in a table must not let a command pass
        log.exception("judging a command failed, so that it is asked about")
        yield f"{UNSEEN}: judging it failed ({type(error).__name__})"


def _found(command: str, cwd: str) -> Iterator[str]:
    reading = read(command, cwd)
    secret_files: set[str] = set()
    for one in reading.commands:
        if reason := reason_against(one, secret_files):
            yield reason
        secret_files.update(secret_copies(one))
    yield from reading.findings
    if reading.unread:
        yield reading.unread


def reason_against(command: Command, secret_files: Collection[str] = ()) -> str | None:
    """Return why a single command is destructive, apart from its nested commands; None if harmless.

    Args:
        command: The command.
        secret_files: Files into which earlier commands have put secrets.
    """
    return destructive_reason(command) or exfiltration_reason(command, secret_files)


def destructive_commands(decision: Literal["ask", "deny"] = "ask") -> Callable[[CommandRequest], Answer]:
    """Return the policy as a `before_command` hook.

    Args:
        decision: The decision on a destructive command.

    Raises:
        ValueError: The decision is another.
        MissingExtraError: The extra `approvals` is not installed.
    """
    require_parser("the policy for destructive commands")
    if decision not in ("ask", "deny"):
        raise ValueError(f"decision is {decision!r}; allowed: 'ask', 'deny'")

    def before_command(request: CommandRequest) -> Answer:
        reason = destructive(request.command, request.cwd)
        if reason is None:
            return None
        return Deny(reason) if decision == "deny" else Ask(reason)

    return before_command
