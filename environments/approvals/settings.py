"""The section `approvals:` of config.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from environments.errors import SettingsError
from environments.validation import Layer, validated

if TYPE_CHECKING:
    from pydantic import PositiveFloat

Verdict = Literal["allow", "ask", "deny"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalSettings:
    """Rules for commands, scripts and tool calls on every backend. Hooks in code cannot lift them."""

    destructive_commands: Verdict = "allow"
    """Decision on destructive commands, by the table in `environments.approvals.destructive`; needs the extra
    `approvals`."""
    commands: Verdict = "allow"
    """Decision on commands that no pattern of `allow` covers."""
    deny: tuple[str, ...] = ()
    """Patterns of denied commands, applied before all other rules."""
    ask: tuple[str, ...] = ()
    """Patterns of commands that need an answer."""
    allow: tuple[str, ...] = ()
    """Patterns of allowed commands, unless a pattern of `deny` fits."""
    tools: Mapping[str, Verdict] = field(default_factory=dict)
    """Decision on a script's tool calls, by tool name or pattern; the first match counts."""
    scripts: Verdict = "allow"
    """Decision on scripts."""
    timeout: PositiveFloat | None = None
    """Seconds to wait for an answer; without an answer in time the request is denied. No limit if not set."""


def approval_settings(layer: Layer) -> ApprovalSettings | None:
    """Return the settings of the section, validated; None for an empty section.

    Raises:
        SettingsError: A key is unknown, or a value is not allowed.
    """
    if not layer:
        return None
    settings = validated(ApprovalSettings, layer)
    for name in ("deny", "ask", "allow", "tools"):
        if not all(map(str.strip, getattr(settings, name))):
            raise SettingsError(f"{layer[name].where}: one of its patterns is empty; write * for everything")
    return settings
