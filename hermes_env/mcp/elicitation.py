"""Elicitation: requests approvals by a form, shown by the client to its user."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import CancelledError, Future

from mcp.shared.exceptions import MCPError
from mcp.types import ClientCapabilities, ElicitResult

from environments.approvals import CommandRequest, Deny, Request, ScriptRequest
from hermes_env.approver import escaped, request_text

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


def has_forms(capabilities: ClientCapabilities | None) -> bool:
    """Return True if a client shows forms. Elicitation declared without a mode means forms."""
    elicitation = capabilities.elicitation if capabilities else None
    return elicitation is not None and (elicitation.form is not None or elicitation.url is None)


class Approvals:
    """The approvals of a client's user. Some last until the end of the session."""

    def __init__(self) -> None:
        self._lasting: set[tuple[str, str]] = set()

    def decide(
        self, request: Request, question: str, show: Callable[[str], Future[ElicitResult]] | None
    ) -> bool | Deny:
        """Return the user's decision. Callable from any thread except the event loop's.

        Args:
            request: The command, script or tool call.
            question: The reason for asking.
            show: Shows a text with the form; None for a client without forms.
        """
        key = _key(request)
        if key in self._lasting:
            return True
        if show is None:
            return Deny(f"it needs approval ({question}), and the client has no way to ask for it")
        try:
            answer = show(f"Approval is asked for: {escaped(question)}\n\n{escaped(request_text(request))}").result()
        except CancelledError:
            return Deny("the call was cancelled before the answer")
        except (MCPError, RuntimeError):  # the client cannot show the form, or the call is over
            return Deny(f"it needs approval ({question}), and the client could not ask")
        decision = (answer.content or {}).get("decision") if answer.action == "accept" else DENY
        if decision == SESSION:
            self._lasting.add(key)
        return decision in (ONCE, SESSION)


def _key(request: Request) -> tuple[str, str]:
    if isinstance(request, CommandRequest):
        return "command", request.command
    if isinstance(request, ScriptRequest):
        return "script", request.code
    return "tool", request.tool
