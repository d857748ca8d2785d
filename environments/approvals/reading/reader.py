"""Going through shell text as a shell would, and collecting the commands that it meets.

Every branch is taken and every function entered once, where it is defined. What is assigned on the way is followed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from environments.approvals.command import UNKNOWN, Command, Redirect, Word
from environments.approvals.reading.budget import MAX_DEPTH, PER_COMMAND, Budget, TooMuchError
from environments.approvals.reading.carried import Carried
from environments.approvals.reading.carrying import carried_by
from environments.approvals.reading.effects import Effects, assigned
from environments.approvals.reading.expansion import Expansion, printed_by
from environments.approvals.reading.found import listed
from environments.approvals.reading.lexer import Lexer
from environments.approvals.reading.printed import printed, smell_of
from environments.approvals.reading.segment import Segment
from environments.approvals.reading.tokens import RawWord, Token
from environments.approvals.reading.walk import Walk


class Reader:
    """What one text would run.

    Args:
        start: The absolute directory where it begins; empty if not known.
        posix: Whether to read it as sh where bash differs.
    """

    def __init__(self, start: str = "", *, posix: bool = False) -> None:
        self.commands: list[Command] = []
        """All commands, what they carry behind them."""
        self.findings: list[str] = []
        """What is dangerous, or cannot be seen through, and is no command's own."""
        self._start = start
        self._budget = Budget()
        self._posix = posix
        self._effects = Effects()
        self._expansion = Expansion(lambda: self._effects.variables, self._substituted, self._budget)

    @property
    def unclosed(self) -> bool:
        """Whether the text ended within a quote, a parenthesis or a brace."""
        return self._budget.unclosed

    @property
    def differs(self) -> bool:
        """Whether sh and bash read the text, or one that it carries, differently."""
        return self._budget.differs

    def read(self, text: str, feeding: tuple[Command, ...] = ()) -> tuple[Command, ...]:
        """Read shell text, and return its commands without what they carry.

        Raises:
            TooMuchError: It is too long, nested too deep, or unfolds to too much.
        """
        return self._walk(Lexer(text, self._budget, posix=self._posix).tokens(), feeding)

    def _substituted(self, tokens: list[Token]) -> tuple[Command, ...]:
        before = self.enter()
        try:
            return self._walk(tokens, ())
        finally:
            self.leave(before)

    def _walk(self, tokens: list[Token], feeding: tuple[Command, ...]) -> tuple[Command, ...]:
        with self._budget.deeper():
            return Walk(self, tokens, feeding).run()

    # One command.

    def command(self, segment: Segment, feeding: tuple[Command, ...]) -> Command | None:
        """Expand a simple command, note it with what it carries, and return it."""
        assignments: list[tuple[str, Word]] = []
        raw = list(segment.words)
        while raw and (found := assigned(raw[0])):
            name, appends, value = found
            word = self._expansion.text(value)
            assignments.append((name, word))
            self._effects.variables.set(name, [word.text], appends=appends)
            raw.pop(0)
        words = tuple(self._as_written(word) for one in raw for word in self._expansion.words(one))
        redirects = tuple(Redirect(sign, self._expansion.text(target)) for sign, target in segment.redirects)
        if not (words or assignments or redirects or segment.documents):
            return None
        for redirect in redirects:
            if redirect.operator == "<":
                feeding = self._as_written(redirect.target).fed_by or feeding
        self._budget.spend(len(feeding))
        given = self._given(segment, redirects, feeding)
        command = Command(words, tuple(assignments), redirects, feeding, given)
        return self.note(command)

    def _given(self, segment: Segment, redirects: Sequence[Redirect], feeding: tuple[Command, ...]) -> str | None:
        """Return what a command reads; None where that is not known, or nothing."""
        texts = [self._expansion.text(document.body).text for document in segment.documents]
        texts += [redirect.target.text + "\n" for redirect in redirects if redirect.operator == "<<<"]
        if texts:
            return "".join(texts)
        return printed_by(feeding) if feeding else None

    def _as_written(self, word: Word) -> Word:
        """Return a word with the command that has written the file that it names, if the text has one."""
        writer = () if word.fed_by else self._effects.writer_of(word.text)
        return replace(word, fed_by=writer) if writer else word

    def note(self, command: Command) -> Command:
        """Note a command where things stand, and what it carries."""
        self._budget.spend(PER_COMMAND)
        command = replace(command, directory=self._effects.directory, start=self._start)
        inputs = (*command.fed_by, *(fed for word in command.words for fed in word.fed_by))
        command = replace(
            command, smells=smell_of(command.name, inputs), prints=printed(command), lists=listed(command)
        )
        self.commands.append(command)
        self._effects.follow(command)
        with self._budget.deeper():
            carried = carried_by(command)
            self._budget.spend(carried.size)
            inner = self._carried(command, carried)
        # sudo echo prints what echo prints.
        if command.prints is None and len(inner) == 1 and carried.commands:
            command = replace(command, prints=inner[0].prints, smells=command.smells or inner[0].smells)
        return command

    def _carried(self, command: Command, carried: Carried) -> list[Command]:
        if carried.unseen:
            self.findings.append(carried.unseen)
        if not (carried.commands or carried.texts):
            return []
        kept = self.enter()
        try:
            inner = [self.note(one) for one in carried.commands]
            for text in carried.texts:
                unclosed = self._budget.unclosed
                self._effects = kept.copy(has_arguments=True)
                self.read(text.text, () if text.is_input else self._input_of(command))
                if text.stays:
                    kept = self._effects
                if text.is_guess:
                    self._budget.unclosed = unclosed
        finally:
            self.leave(kept)
        return inner

    @staticmethod
    def _input_of(command: Command) -> tuple[Command, ...]:
        if command.fed_by or command.given is None:
            return command.fed_by
        return (Command(prints=command.given),)

    # What the walk needs, see `Shell`.

    def check_depth(self, depth: int, commands: int = 0) -> None:
        """Raise TooMuchError where compound commands are nested too deep, each of which counts those in it again."""
        self._budget.spend(commands)
        if depth > MAX_DEPTH:
            raise TooMuchError("it is nested too deep to be judged")

    def loop_over(self, name: str, words: Sequence[RawWord]) -> None:
        """Give a loop's variable all that it goes through."""
        self._effects.variables.set(name, self._values(words) or [UNKNOWN], splits=True)

    def array(self, name: str, words: Sequence[RawWord], *, appends: bool) -> None:
        """Give an array its elements."""
        self._effects.variables.set(name, self._values(words), splits=True, appends=appends)

    def _values(self, words: Sequence[RawWord]) -> list[str]:
        return [word.text for one in words for word in self._expansion.words(one)]

    def evaluate(self, words: Sequence[RawWord]) -> None:
        """Have the substitutions in words read that are no command's."""
        for word in words:
            self._expansion.text(word)

    def enter(self, *, has_arguments: bool = False) -> Effects:
        """Begin a subshell or function, and return what to put back where it ends."""
        before = self._effects
        self._effects = before.copy(has_arguments=has_arguments or None)
        return before

    def leave(self, before: Effects) -> None:
        """End it."""
        self._effects = before
