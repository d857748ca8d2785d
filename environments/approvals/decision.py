"""Requests that hooks and rules decide on, and their decisions."""

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
    """The directory where it is to run; None for that of a session whose directory is not known yet."""
    backend: str
    task_id: str
    way: Way
    """`session` for `execute`, `oneshot` for `execute_oneshot`, `background` for `start`."""
    user: str | None = None
    """The user that it is to run as, a name or a number; None for the default user of the target."""


@dataclass(frozen=True, slots=True)
class ScriptRequest:
    """A Python script that is about to run. Each tool call that it makes is a request of its own."""

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
    """The arguments by the names of the tool's parameters, however the script passed them."""
    backend: str
    task_id: str


Request = CommandRequest | ScriptRequest | ToolCallRequest


@dataclass(frozen=True, slots=True)
class Allow:
    """Allow the request. Another hook or rule may still deny it."""


@dataclass(frozen=True, slots=True)
class Deny:
    """Deny the request."""

    reason: str
    """The reason, which the caller is given; often that is a model."""


@dataclass(frozen=True, slots=True)
class Ask:
    """Have `approve` decide; without it, the request is denied."""

    question: str
    """The question for `approve`."""


Decision = Allow | Deny | Ask
Answer = Decision | bool | str | None
"""The return value of a hook. None and True allow, False denies, a text denies and is the reason."""

CommandHook = Callable[[CommandRequest], Answer]
ScriptHook = Callable[[ScriptRequest], Answer]
ToolCallHook = Callable[[ToolCallRequest], Answer]
Approver = Callable[[Request, str], Answer]
"""Takes the request and the question. It answers as a hook does, but None and `Ask` deny."""
