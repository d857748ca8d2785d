"""The rules of the section `approvals:` in config.yaml: deny list, ask list, allow list, tools and scripts."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from fnmatch import fnmatchcase

from environments.approvals.allow_list import AllowPattern
from environments.approvals.command import UNKNOWN, UNSEEN, Command
from environments.approvals.exfiltration import secret_copies
from environments.approvals.globs import is_pattern
from environments.approvals.hooks import Allow, Ask, CommandRequest, Decision, Deny, ScriptRequest, ToolCallRequest
from environments.approvals.plain_text import read_plain_text
from environments.approvals.policy import reason_against
from environments.approvals.reader import read
from environments.approvals.settings import ApprovalSettings, Verdict
from environments.approvals.syntax import has_parser, require_parser

_SHOWN = 200
"""Characters of a command that a reason shows."""
_STRENGTH = {Allow: 0, Ask: 1, Deny: 2}


class _CommandPattern:
    """A pattern of the deny list or the ask list.

    The match is generous: more words may follow, `*` is any text, and case is ignored.
    """

    def __init__(self, pattern: str) -> None:
        self._written = " ".join(pattern.split())
        self._pattern = self._written.lower()

    def __str__(self) -> str:
        return self._written

    def matches(self, command: Command) -> bool:
        """Return True if a command matches, with or without the directory of its program."""
        return self.matches_text(command.line) or self.matches_text(" ".join((command.name, *command.texts)))

    def matches_text(self, text: str) -> bool:
        """Return True if a text matches as a whole."""
        text = text.lower()
        return fnmatchcase(text, self._pattern) or fnmatchcase(text, f"{self._pattern} *")


class Rules:
    """The decisions of the section `approvals:`. They hold beside the hooks of code, which cannot lift a denial.

    Args:
        settings: The section.

    Raises:
        SettingsError: A pattern of `approvals.allow` cannot be read.
        MissingExtraError: `destructive_commands` is set, and the extra `approvals` is not installed.
    """

    def __init__(self, settings: ApprovalSettings) -> None:
        if settings.destructive_commands != "allow":
            require_parser("approvals.destructive_commands")
        self._read = read if has_parser() else read_plain_text
        self.timeout = settings.timeout
        """Seconds to wait for an answer; None waits without limit."""
        self._settings = settings
        self._denied = [_CommandPattern(pattern) for pattern in settings.deny]
        self._asked = [_CommandPattern(pattern) for pattern in settings.ask]
        self._allowed = [AllowPattern(pattern) for pattern in settings.allow]

    def command(self, request: CommandRequest) -> Decision:
        """Return the strictest decision on any command in the text of a request."""
        settings = self._settings
        if {settings.destructive_commands, settings.commands} == {"allow"} and not (self._denied or self._asked):
            return Allow()
        return max(self._decisions(request), key=lambda decision: _STRENGTH[type(decision)], default=Allow())

    def _decisions(self, request: CommandRequest) -> Iterator[Decision]:
        if found := next((pattern for pattern in self._denied if pattern.matches_text(request.command)), None):
            yield Deny(f"a rule names it ({found})")
            return  # nothing is stronger
        if any(allowed.equals_text(request.command) for allowed in self._allowed):
            return
        if found := next((pattern for pattern in self._asked if pattern.matches_text(request.command)), None):
            yield Ask(f"a rule names it ({found})")
        reading = self._read(request.command, request.cwd or "")
        for reason in (reading.unread, *reading.findings):
            if reason:
                yield self._on_unread(reason)
        secret_files: set[str] = set()
        for command in reading.commands:
            yield self._on_command(command, secret_files)
            secret_files.update(secret_copies(command))

    def _on_unread(self, reason: str) -> Decision:
        """Return the strictest decision of any rule, for a part that no pattern can match."""
        settings = self._settings
        verdicts = {settings.destructive_commands, settings.commands}
        if self._denied or "deny" in verdicts:
            return Deny(reason)
        return Ask(reason) if self._asked or "ask" in verdicts else Allow()

    def _on_command(self, command: Command, secret_files: Collection[str]) -> Decision:
        if found := next((pattern for pattern in self._denied if pattern.matches(command)), None):
            return Deny(f"a rule names it ({found})")
        if UNKNOWN in command.name or (command.words and command.words[0].glob and is_pattern(command.name)):
            return self._on_unread(f"{UNSEEN}: its program is made at run time")
        if not command.is_guess and any(allowed.covers(command) for allowed in self._allowed):
            return Allow()
        if found := next((pattern for pattern in self._asked if pattern.matches(command)), None):
            return Ask(f"a rule names it ({found})")
        settings = self._settings
        if settings.destructive_commands != "allow" and (reason := reason_against(command, secret_files)):
            return _decision(settings.destructive_commands, reason)
        shown = command.line or "an assignment or a redirection"
        return _decision("allow" if command.is_guess else settings.commands, f"no rule allows it ({shown[:_SHOWN]})")

    def script(self, request: ScriptRequest) -> Decision:
        """Return the decision on a script."""
        return _decision(self._settings.scripts, "scripts are not run without being asked for")

    def tool_call(self, request: ToolCallRequest) -> Decision:
        """Return the decision on a tool call."""
        for pattern, verdict in self._settings.tools.items():
            if fnmatchcase(request.tool, pattern):
                return _decision(verdict, f"a rule names the tool ({pattern})")
        return Allow()


def _decision(verdict: Verdict, reason: str) -> Decision:
    if verdict == "allow":
        return Allow()
    return Ask(reason) if verdict == "ask" else Deny(reason)
