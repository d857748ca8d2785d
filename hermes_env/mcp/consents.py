"""Asking a client's user whether something may be done, by a form that the client shows."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import CancelledError, Future

from mcp.shared.exceptions import MCPError
from mcp.types import ClientCapabilities, ElicitResult

from environments.approvals import CommandRequest, Deny, Request, ScriptRequest
from hermes_env.approver import asked_about, visible

ONCE, SESSION, DENY = "allow once", "allow for this session", "deny"
FORM: dict[str, object] = {
    "type": "object",
    "properties": {
        "decision": {
            "type": "string",
            "title": "Decision",
            "description": f"{SESSION} holds for the same command, the same script, or all calls of the same tool.",
            "enum": [ONCE, SESSION, DENY],
        }
    },
    "required": ["decision"],
}

Ask = Callable[[str], "Future[ElicitResult]"]
"""Shows a client a text with the form."""


def can_ask(capabilities: ClientCapabilities | None) -> bool:
    """Whether a client shows forms. One that names no kind of elicitation shows those."""
    elicitation = capabilities.elicitation if capabilities else None
    return elicitation is not None and (elicitation.form is not None or elicitation.url is None)


class Consents:
    """What the user of one client has allowed for good, which is until the client leaves."""

    def __init__(self) -> None:
        self._allowed: set[tuple[str, ...]] = set()

    def cover(self, request: Request) -> bool:
        """Whether the user has allowed it already."""
        return _key(request) in self._allowed

    def ask(self, request: Request, question: str, ask: Ask) -> bool | Deny:
        """Ask the user, and wait for the answer.

        Args:
            request: What is about to be done.
            question: What there is to consider.
            ask: Shows the form.
        """
        text = f"Approval is asked for: {visible(question)}\n\n{visible(asked_about(request))}"
        try:
            answer = ask(text).result()
        except CancelledError:
            return Deny("it is no longer waited for")
        except (MCPError, RuntimeError):  # the client cannot show it, or has gone
            return Deny(f"it needs approval ({question}), and the client could not ask")
        decision = (answer.content or {}).get("decision") if answer.action == "accept" else DENY
        if decision == SESSION:
            self._allowed.add(_key(request))
        return decision in (ONCE, SESSION)


def _key(request: Request) -> tuple[str, ...]:
    if isinstance(request, CommandRequest):
        return ("command", request.command)
    if isinstance(request, ScriptRequest):
        return ("script", request.code)
    return ("tool", request.tool)
