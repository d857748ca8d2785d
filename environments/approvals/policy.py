"""The ready policy: well-known commands that destroy what does not come back, and their disguises.

It is no wall. A program may do anything that its command's text does not say.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Literal

from environments.approvals.command import UNSEEN, Command
from environments.approvals.decision import Answer, Ask, CommandRequest, Deny
from environments.approvals.deeds import deed
from environments.approvals.exfiltration import leak, takes
from environments.approvals.reader import read
from environments.approvals.syntax import require_parser
from environments.log import logger

log = logger(__name__)


def destructive(command: str, cwd: str | None = None) -> str | None:
    """Say what is destructive about shell text, without running any of it.

    Args:
        command: Shell text. It is read as bash and sh read it: quotes, variables that it sets itself, substitutions,
            here-documents, what stands behind `sudo`, `sh -c`, `xargs` and the like.
        cwd: The directory where it would run, which relative paths are taken from; None if it is not known.

    Returns:
        The reason, for people and models; None where nothing is known to be destructive. What could be anything, such
        as a download that a shell reads, and what is too long or nested too deep, has a reason too. The time it takes
        is bounded, whatever the text holds.

    Raises:
        MissingExtraError: The extra `approvals` is not installed.
    """
    require_parser("judging commands")
    return next(findings(command, cwd), None)


def findings(command: str, cwd: str | None = None) -> Iterator[str]:
    """Return all that `destructive` has to say, the surest first. Arguments are the same."""
    try:
        yield from _found(command, cwd or "")
    except Exception as error:  # a fault of a table must not let a command pass
        log.exception("judging a command failed, so that it is asked about")
        yield f"{UNSEEN}: judging it failed ({type(error).__name__})"


def _found(command: str, cwd: str) -> Iterator[str]:
    reading = read(command, cwd)
    taken: set[str] = set()
    for one in reading.commands:
        if reason := judged(one, taken):
            yield reason
        taken.update(takes(one))
    yield from reading.findings
    if reading.unread:
        yield reading.unread


def judged(command: Command, taken: Collection[str] = ()) -> str | None:
    """Return what is destructive about one command, apart from those that it runs in its turn; None if nothing is.

    Args:
        command: The command.
        taken: Files that commands before it have put secrets into.
    """
    return deed(command) or leak(command, taken)


def destructive_commands(decision: Literal["ask", "deny"] = "ask") -> Callable[[CommandRequest], Answer]:
    """Return the policy as a `before_command` hook.

    Args:
        decision: What happens to a command that `destructive` has a reason against.

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
