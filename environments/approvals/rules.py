"""The rules of config.yaml, as hooks."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

from environments.approvals.command import Command
from environments.approvals.decision import Allow, Ask, CommandRequest, Decision, Deny, ScriptRequest, ToolCallRequest
from environments.approvals.patterns import AllowedCommand, CommandPattern
from environments.approvals.policy import judged
from environments.approvals.reader import read
from environments.approvals.settings import ApprovalSettings, Verdict

_SHOWN = 200
"""Characters of a command that a reason shows."""
_STRENGTH = {Allow: 0, Ask: 1, Deny: 2}


class Rules:
    """What `approvals:` says. They apply beside the hooks of code, which cannot lift a denial."""

    def __init__(self, settings: ApprovalSettings) -> None:
        """Take the rules.

        Raises:
            SettingsError: A pattern of `approvals.allow` cannot be read.
        """
        self.timeout = settings.timeout
        """Seconds to wait for an answer; None for as long as it takes."""
        self._settings = settings
        self._denied = [CommandPattern(pattern) for pattern in settings.deny]
        self._asked = [CommandPattern(pattern) for pattern in settings.ask]
        self._allowed = [AllowedCommand(pattern) for pattern in settings.allow]

    def command(self, request: CommandRequest) -> Decision:
        """Decide on a command by the commands that it is made of: the strictest decision on one of them counts."""
        settings = self._settings
        if {settings.destructive_commands, settings.commands} == {"allow"} and not (self._denied or self._asked):
            return Allow()
        return max(self._decisions(request), key=lambda decision: _STRENGTH[type(decision)], default=Allow())

    def _decisions(self, request: CommandRequest) -> Iterator[Decision]:
        if found := next((pattern for pattern in self._denied if pattern.fits_text(request.command)), None):
            yield Deny(f"a rule names it ({found})")
            return  # nothing is stronger
        if any(allowed.is_text(request.command) for allowed in self._allowed):
            return
        if found := next((pattern for pattern in self._asked if pattern.fits_text(request.command)), None):
            yield Ask(f"a rule names it ({found})")
        reading = read(request.command, request.cwd or "")
        if reading.unread:
            yield self._on_unread(reading.unread)
        for finding in reading.findings:
            yield _decision(self._settings.destructive_commands, finding)
            yield _decision(self._settings.commands, finding)
        for command in reading.commands:
            yield self._on_command(command)

    def _on_unread(self, reason: str) -> Decision:
        """Decide on what no pattern can be held against: as strictly as any rule would."""
        settings = self._settings
        verdicts = {settings.destructive_commands, settings.commands}
        if self._denied or "deny" in verdicts:
            return Deny(reason)
        return Ask(reason) if self._asked or "ask" in verdicts else Allow()

    def _on_command(self, command: Command) -> Decision:
        if found := next((pattern for pattern in self._denied if pattern.fits(command)), None):
            return Deny(f"a rule names it ({found})")
        if any(allowed.covers(command) for allowed in self._allowed):
            return Allow()
        if found := next((pattern for pattern in self._asked if pattern.fits(command)), None):
            return Ask(f"a rule names it ({found})")
        settings = self._settings
        if settings.destructive_commands != "allow" and (reason := judged(command)):
            return _decision(settings.destructive_commands, reason)
        if settings.commands != "allow":
            shown = command.line or "an assignment or a redirection"
            return _decision(settings.commands, f"no rule allows it ({shown[:_SHOWN]})")
        return Allow()

    def script(self, request: ScriptRequest) -> Decision:
        """Decide on a script."""
        return _decision(self._settings.scripts, "scripts are not run without being asked for")

    def tool_call(self, request: ToolCallRequest) -> Decision:
        """Decide on a call of a tool."""
        for pattern, verdict in self._settings.tools.items():
            if fnmatchcase(request.tool, pattern):
                return _decision(verdict, f"a rule names the tool ({pattern})")
        return Allow()


def _decision(verdict: Verdict, reason: str) -> Decision:
    if verdict == "allow":
        return Allow()
    return Ask(reason) if verdict == "ask" else Deny(reason)
