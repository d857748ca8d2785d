"""The rules of config.yaml, which decide as hooks do."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from fnmatch import fnmatchcase

from environments.approvals.command import UNKNOWN, UNSEEN, Command
from environments.approvals.decision import Allow, Ask, CommandRequest, Decision, Deny, ScriptRequest, ToolCallRequest
from environments.approvals.exfiltration import takes
from environments.approvals.globs import is_pattern
from environments.approvals.patterns import AllowedCommand, CommandPattern
from environments.approvals.plain_text import read_plain_text
from environments.approvals.policy import judged
from environments.approvals.reader import read
from environments.approvals.settings import ApprovalSettings, Verdict
from environments.approvals.syntax import has_parser, require_parser

_SHOWN = 200
"""Characters of a command that a reason shows."""
_STRENGTH = {Allow: 0, Ask: 1, Deny: 2}


class Rules:
    """The decisions of the section `approvals:`. They hold beside the hooks of code, which cannot lift a denial."""

    def __init__(self, settings: ApprovalSettings) -> None:
        """Take the rules.

        Raises:
            SettingsError: A pattern of `approvals.allow` cannot be read.
            MissingExtraError: `destructive_commands` is set, and the extra `approvals` is not installed.
        """
        if settings.destructive_commands != "allow":
            require_parser("approvals.destructive_commands")
        self._read = read if has_parser() else read_plain_text
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
        reading = self._read(request.command, request.cwd or "")
        for reason in (reading.unread, *reading.findings):
            if reason:
                yield self._on_unread(reason)
        taken: set[str] = set()
        for command in reading.commands:
            yield self._on_command(command, taken)
            taken.update(takes(command))

    def _on_unread(self, reason: str) -> Decision:
        """Decide on a part that no pattern can be held against, as strictly as any rule would."""
        settings = self._settings
        verdicts = {settings.destructive_commands, settings.commands}
        if self._denied or "deny" in verdicts:
            return Deny(reason)
        return Ask(reason) if self._asked or "ask" in verdicts else Allow()

    def _on_command(self, command: Command, taken: Collection[str]) -> Decision:
        if found := next((pattern for pattern in self._denied if pattern.fits(command)), None):
            return Deny(f"a rule names it ({found})")
        if UNKNOWN in command.name or (command.words and command.words[0].glob and is_pattern(command.name)):
            return self._on_unread(f"{UNSEEN}: its program is not known before it runs")
        if not command.guessed and any(allowed.covers(command) for allowed in self._allowed):
            return Allow()
        if found := next((pattern for pattern in self._asked if pattern.fits(command)), None):
            return Ask(f"a rule names it ({found})")
        settings = self._settings
        if settings.destructive_commands != "allow" and (reason := judged(command, taken)):
            return _decision(settings.destructive_commands, reason)
        shown = command.line or "an assignment or a redirection"
        return _decision("allow" if command.guessed else settings.commands, f"no rule allows it ({shown[:_SHOWN]})")

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
