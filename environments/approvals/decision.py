"""What is asked about before it is done, and what may be answered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

Way = Literal["session", "oneshot", "background"]


@dataclass(frozen=True, slots=True)
class CommandRequest:
    """A command that is about to run."""

    command: str
    """Its shell text."""
    cwd: str | None
    """The directory it is to run in; None is the session's, when no command has made it known yet."""
    backend: str
    task_id: str
    way: Way
    """`session` for `execute`, `oneshot` for `execute_oneshot`, `background` for `start`."""
    user: str | None = None
    """The user of the target that it is to run as, a name or a number; None is the target's own."""


@dataclass(frozen=True, slots=True)
class ScriptRequest:
    """A Python script that is about to run. What it calls is asked about on its own."""

    code: str
    mode: str
    """`project` or `strict`, see `execute_code`."""
    backend: str
    task_id: str


@dataclass(frozen=True, slots=True)
class ToolCallRequest:
    """A tool that a script is about to call."""

    tool: str
    arguments: Mapping[str, object] = field(repr=False)
    """By the names of the tool's parameters, in whichever way the script has passed them."""
    backend: str
    task_id: str


Request = CommandRequest | ScriptRequest | ToolCallRequest


@dataclass(frozen=True, slots=True)
class Allow:
    """Go on. Another hook or rule may still deny it."""


@dataclass(frozen=True, slots=True)
class Deny:
    """Do not."""

    reason: str
    """Why, for whoever wanted it, which is often a model."""


@dataclass(frozen=True, slots=True)
class Ask:
    """Let `approve` decide; without one it is denied."""

    question: str
    """What there is to consider."""


Decision = Allow | Deny | Ask
Answer = Decision | bool | str | None
"""What a hook may return. None and True allow, False denies, and text denies and is the reason."""

CommandHook = Callable[[CommandRequest], Answer]
ScriptHook = Callable[[ScriptRequest], Answer]
ToolCallHook = Callable[[ToolCallRequest], Answer]
Approver = Callable[[Request, str], Answer]
"""Called with the request and the question. It answers as a hook does, but None and `Ask` are no consent."""
