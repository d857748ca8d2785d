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
    """What is denied or asked about, on every backend and whatever the code that runs commands says."""

    destructive_commands: Verdict = "allow"
    """What happens to commands that `environments.approvals.destructive` knows."""
    commands: Verdict = "allow"
    """What happens to commands that no pattern of `approvals.allow` names."""
    deny: tuple[str, ...] = ()
    """Patterns of commands that are denied, whatever else is said of them."""
    ask: tuple[str, ...] = ()
    """Patterns of commands that are asked about."""
    allow: tuple[str, ...] = ()
    """Patterns of commands that go through, unless `approvals.deny` names them."""
    tools: Mapping[str, Verdict] = field(default_factory=dict)
    """What happens to a script's calls of a tool, by its name or a pattern of names; the first that fits counts."""
    scripts: Verdict = "allow"
    """What happens to scripts."""
    timeout: PositiveFloat | None = None
    """Seconds to wait for an answer, after which it is a denial; without it, for as long as it takes."""


def approval_settings(layer: Layer) -> ApprovalSettings | None:
    """Check the values of the section; None where there are none.

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
