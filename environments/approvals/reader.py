"""Reading shell text with tree-sitter: the commands that it would run, as far as its literal text tells.

Every branch is followed. Variables that the text sets by literal text, functions, aliases, the directory, and files
that it writes are known from then on. Everything else, and a variable that a branch or a loop may change, is UNKNOWN.
"""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cache, partial
from importlib.util import find_spec
from itertools import pairwise, zip_longest
from typing import TYPE_CHECKING

from environments.approvals.command import UNKNOWN, UNSEEN, Command, Redirect, Runs, Word
from environments.approvals.options import Options
from environments.approvals.paths import holds_secret
from environments.approvals.paths import words as names
from environments.approvals.runners import COPYING, evaluated, joined, listed, runs
from environments.approvals.words import (
    MAX_VALUE,
    Piece,
    TooMuchError,
    ansi_c,
    expand_braces,
    printed,
    split_into_words,
)

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

_LIBRARIES = ("tree_sitter", "tree_sitter_bash")
MAX_CHARACTERS = 50_000
"""A longer text is not read at all. Commands that carry a file in a here-document are mostly shorter."""
_MAX_DEPTH = 24
_MAX_NESTING = 120
_MAX_COST = 3 * MAX_CHARACTERS
_COST = 25
"""The cost of a command in characters, beside its own: judging one takes as long as reading so many."""
_MAX_SECONDS = 0.2
"""The time of the processor after which reading ends. Everyday commands take a thousandth of it."""
_TOO_LONG = "it is too long, or unfolds to too much, to be judged"
_MAX_PIPES = 4000
_SHORT = 2000
"""A text of so many bytes is parsed soon whatever it holds."""
_MAX_TURNS = 64
"""A loop over more words is read once, with its variable UNKNOWN."""
_SAME_SHELL = names("eval . source trap alias builtin command time ! { } then do else elif if while until exec")
"""Programs whose commands run in the same shell, so that variables and the directory stay."""
_DECLARING = frozenset({"export", "declare", "local", "typeset", "readonly"})
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(?:\[([^\]]*)\])?(\+?)=(.*)", re.DOTALL)
_NAME = re.compile(r"[A-Za-z_]\w*")
_EXPANSION = re.compile(
    rb"\$\{([!#]?)([A-Za-z_]\w*|[0-9]+|[@*#?$!-])(?:\[((?:[^\[\]]|\[[^\]]*\])*)\])?(.*)\}", re.DOTALL
)
_BACKTICKS = re.compile(rb"(?<!\\)`((?:[^`\\]|\\.)*)`", re.DOTALL)
_UNENDED = re.compile(r"<<-?\s*(['\"\\]?)\w+\1")
"""A here-document without a body."""
_LONE_SLASH = re.compile(r"(\s)/(?=\s+\]\])")
"""`[[ -d / ]]`, in which tree-sitter takes the slash for the sign of a division."""
_BEGINS_EXPANSION = re.compile(rb"[\w{(@*#?!-]|\\\n[\w{(@*#?!-]")
_ENDS_QUOTE = re.compile(r"""[$`"}\\]""")
_EVALUATES = re.compile(r"\$\(|`")
_SUBSTITUTES = re.compile(r"`|[<>]\(|\$[\w{(@*#?!-]")
_OPERATOR = re.compile(r":?[-=?+]|[#%/^,@:]")
_KNOWN = {
    "HOME": "~",
    "PWD": ".",
    "TMPDIR": "/tmp",  # noqa: S108 - the meaning of the variable, and no file of ours
    "IFS": " ",
    "USER": "user",
    "LOGNAME": "user",
    "SHELL": "sh",
    "BASH": "bash",
    "PYTHON": "python",
    "CC": "cc",
    "CXX": "c++",
    "MAKE": "make",
    "EDITOR": "vi",
    "PAGER": "less",
    "?": "0",
    "-": "",
    "0": "sh",
    **dict.fromkeys(("UID", "EUID", "RANDOM", "SECONDS", "LINENO", "#"), "1"),
    **dict.fromkeys(("$", "!", "PPID", "BASHPID"), "4321"),
}
_PLAIN = re.compile(rb"[\w./:@%+,-]+")
"""A word that means itself."""
_Value = tuple[Word, ...]
"""The elements of an array, of which a plain variable has one."""
_UNKNOWN_VALUE: _Value = (Word(UNKNOWN, quoted=False),)
_Flow = tuple[Command, ...]
"""The commands whose output is read, or passed on."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The contents of a text."""

    commands: tuple[Command, ...] = ()
    """All commands, also those that others run in their turn."""
    findings: tuple[str, ...] = ()
    """What is dangerous, or cannot be seen through, and is no command's own."""
    unread: str = ""
    """Why there may be more in it than was found."""


def read(text: str, start: str = "") -> Reading:
    """Read shell text, without running any of it.

    Args:
        text: Shell text.
        start: The absolute directory where it begins; empty if not known.

    Raises:
        MissingExtraError: The extra `approvals` is not installed; `read_plain_text` needs none.
    """
    if len(text) > MAX_CHARACTERS:
        return Reading(unread=f"it is too long to be judged: {len(text):,} characters of at most {MAX_CHARACTERS:,}")
    reader = _Reader(start)
    try:
        reader.text(text, ())
        reader.uncalled()
    except TooMuchError as error:
        reader.unread = str(error)
    except RecursionError:  # a caller may have left little room
        reader.unread = "it is nested too deep to be judged"
    return Reading(tuple(reader.commands), tuple(dict.fromkeys(reader.findings)), reader.unread)


def has_parser() -> bool:
    """Return True if the libraries of the extra `approvals` are installed. Nothing is imported."""
    return _missing() is None


def require_parser(what: str) -> None:
    """Check that the libraries of the extra `approvals` are installed.

    Args:
        what: The feature that needs them.

    Raises:
        MissingExtraError: One is not installed.
    """
    if missing := _missing():
        from environments.extras import missing_library

        raise missing_library(what, missing, "approvals")


def _missing() -> str | None:
    return next((library for library in _LIBRARIES if not find_spec(library)), None)


@cache
def _parser() -> Parser:
    require_parser("judging commands")
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


@dataclass(frozen=True, slots=True)
class _Function:
    name: str
    body: Node
    source: bytes
    """The text in which the body stands."""


def _text(node: Node) -> str:
    return (node.text or b"").decode(errors="replace")


class _Reader:
    """Reads texts in one state, and collects the commands in them."""

    def __init__(self, start: str) -> None:
        self.commands: list[Command] = []
        self.findings: list[str] = []
        self.unread = ""
        self._start = start
        self._variables: dict[str, _Value] = {}
        self._shared: set[str] = set()
        """Variables that have several names, which are always UNKNOWN."""
        self._functions: dict[str, _Function] = {}
        self._uncalled: list[_Function] = []
        self._aliases: dict[str, str] = {}
        self._files: dict[str, tuple[Command, ...]] = {}
        """The commands that have written a file."""
        self._directory = self._previous = ""
        self._left = _MAX_COST
        self._ends = time.thread_time() + _MAX_SECONDS
        self._depth = self._nesting = 0
        self._running: list[str] = []
        self._source = b""
        """The text that is read now."""

    # Bounds.

    def _spend(self, characters: int) -> None:
        self._left -= characters
        if self._left < 0:
            raise TooMuchError(_TOO_LONG)

    @contextmanager
    def _deeper(self) -> Iterator[None]:
        if self._depth >= _MAX_DEPTH:
            raise TooMuchError("it is nested too deep to be judged")
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1

    # Texts.

    def text(self, text: str, given: _Flow) -> _Flow:
        """Read shell text in the present state, and return the commands in it that print."""
        self._spend(len(text))
        root = self._parsed(text)
        if root.has_error and _LONE_SLASH.search(text):
            root = self._parsed(_LONE_SLASH.sub(r'\1"/"', text))
        if root.has_error and _has_error(root):
            self.unread = f"{UNSEEN}: its syntax is not clear enough to be judged"
        with self._deeper(), self._within(b" " * root.start_byte + (root.text or b"")):
            return self._sequence(root.children, given)

    @contextmanager
    def _within(self, source: bytes) -> Iterator[None]:
        outer, self._source = self._source, source
        try:
            yield
        finally:
            self._source = outer

    def _between(self, start: int, end: int) -> str:
        return self._source[start:end].decode(errors="replace")

    def _parsed(self, text: str) -> Node:
        """Parse a text. The time is bounded, as errors can make it grow with the square of the length."""
        source = text.encode(errors="replace")
        if text.count("|") > _MAX_PIPES or time.thread_time() > self._ends:
            raise TooMuchError(_TOO_LONG)
        parser = _parser()
        if len(source) > _SHORT:
            try:
                parser.parse(lambda offset, _: source[offset:], progress_callback=self._is_late)
            except ValueError:  # interrupted
                parser.reset()
                raise TooMuchError(_TOO_LONG) from None
        return parser.parse(source).root_node  # only a tree of bytes gives the text of its nodes at once

    def _is_late(self, offset: int, has_error: bool) -> bool:
        return time.thread_time() > self._ends

    def uncalled(self) -> None:
        """Read the functions that nothing has called, as something else may."""
        while self._uncalled:
            self._call(self._uncalled[0], _UNKNOWN_VALUE, ())

    # Statements.

    def _sequence(self, nodes: Sequence[Node], given: _Flow) -> _Flow:
        printing: list[_Flow] = []
        for node in nodes:
            if node.is_named:
                printing.append(self._visit(node, given))
        return _joined(printing)

    def _visit(self, node: Node, given: _Flow) -> _Flow:
        if self._nesting >= _MAX_NESTING:
            raise TooMuchError("it is nested too deep to be judged")
        self._nesting += 1
        try:
            handler = _HANDLERS.get(node.type)
            return handler(self, node, given) if handler else self._sequence(node.children, given)
        finally:
            self._nesting -= 1

    def _ignore(self, node: Node, given: _Flow) -> _Flow:
        return ()

    def _compound(self, node: Node, given: _Flow) -> _Flow:
        if node.children and node.children[0].type == "((":
            self._arithmetic(node)
            return ()
        return self._sequence(node.children, given)

    def _subshell(self, node: Node, given: _Flow) -> _Flow:
        with self._apart():
            return self._sequence(node.children, given)

    @contextmanager
    def _apart(self) -> Iterator[None]:
        """Leave variables and the directory as they were before the block."""
        before = self._variables, self._directory, self._previous
        self._variables = dict(self._variables)
        try:
            yield
        finally:
            self._variables, self._directory, self._previous = before

    def _branches(self, branches: Iterable[Callable[[], _Flow]]) -> _Flow:
        """Read what may run or not. A variable that has several values behind it is UNKNOWN."""
        before = self._variables
        after = dict(before)
        printing = []
        for branch in branches:
            self._variables = dict(before)
            printing.append(branch())
            for name, value in self._variables.items():
                if after.setdefault(name, value) != value:
                    after[name] = _UNKNOWN_VALUE
        self._variables = after
        return _either(printing)

    def _list(self, node: Node, given: _Flow) -> _Flow:
        operands: list[Node] = []
        while node.type == "list":
            left, *_, right = (child for child in node.children if child.is_named and child.type != "comment")
            operands.append(right)
            node = left
        first = self._visit(node, given)
        others = self._branches([lambda: _either([self._visit(operand, given) for operand in reversed(operands)])])
        return _either([first, others])

    def _pipeline(self, node: Node, given: _Flow) -> _Flow:
        for child in node.children:
            if child.is_named:
                with self._apart():
                    given = self._visit(child, given)
        return given

    def _if(self, node: Node, given: _Flow) -> _Flow:
        clauses: list[list[Node]] = [[]]
        for child in node.children:
            if child.type in ("elif_clause", "else_clause"):
                clauses.append(child.children)
            else:
                clauses[0].append(child)
        return self._clauses(clauses, given)

    def _clauses(self, clauses: Sequence[Sequence[Node]], given: _Flow) -> _Flow:
        """Read a condition, then its branch and the other clauses as what may run or not."""
        first, *others = clauses
        then = next((at for at, child in enumerate(first) if child.type == "then"), 0)
        condition = self._sequence(first[:then], given)
        branches = [partial(self._sequence, first[then:], given)]
        if others:
            branches.append(partial(self._clauses, others, given))
        return _either([condition, self._branches(branches)])

    def _case(self, node: Node, given: _Flow) -> _Flow:
        self._words([child for child in node.children if child.is_named and child.type != "case_item"])
        items = [child for child in node.children if child.type == "case_item"]
        return self._branches([partial(self._case_item, item, given) for item in items])

    def _case_item(self, node: Node, given: _Flow) -> _Flow:
        patterns = node.children_by_field_name("value")
        self._words(patterns)
        return self._sequence([child for child in node.children if child not in patterns], given)

    def _while(self, node: Node, given: _Flow) -> _Flow:
        return self._repeat(lambda: self._sequence(node.children, given))

    def _c_style_for(self, node: Node, given: _Flow) -> _Flow:
        body = node.child_by_field_name("body")
        self._arithmetic(node, but=body)
        return self._repeat(lambda: self._visit(body, given) if body else ())

    def _for(self, node: Node, given: _Flow) -> _Flow:
        variable, body = node.child_by_field_name("variable"), node.child_by_field_name("body")
        if any(child.type == "in" for child in node.children):
            words = self._words(node.children_by_field_name("value"))
        else:
            words = list(self._variables.get("@", _UNKNOWN_VALUE))
        certain = all(word.literal and not word.glob for word in words)
        if len(words) > _MAX_TURNS:
            words, certain = [Word(UNKNOWN)], False

        def turns() -> _Flow:
            printing: list[_Flow] = []
            for word in words:
                self._variables[_text(variable) if variable else ""] = (replace(word, quoted=True),)
                printing.append(self._visit(body, given) if body else ())
            return _joined(printing)

        return turns() if certain else self._repeat(turns)

    def _repeat(self, once: Callable[[], _Flow]) -> _Flow:
        """Read a loop, and once more with all that it sets UNKNOWN."""
        before, self._variables = self._variables, dict(self._variables)
        printing = once()
        changed = [name for name, value in self._variables.items() if before.get(name) is not value]
        if changed:
            self._variables.update(dict.fromkeys(changed, _UNKNOWN_VALUE))
            printing = once()
            self._variables.update(dict.fromkeys(before.keys() & changed, _UNKNOWN_VALUE))
        return _either([printing, printing])

    def _function(self, node: Node, given: _Flow) -> _Flow:
        name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        if name and body:
            text = self._one([name]).text
            self._functions[text] = function = _Function(text, body, self._source)
            self._uncalled.append(function)
            if _starts_itself(text, body):
                self.findings.append("it is a fork bomb: a function that starts itself over and over")
        if redirects := self._redirects(node.children_by_field_name("redirect")).redirects:
            self.commands.append(self._command((), (), redirects))
        return ()

    def _call(self, function: _Function, args: _Value, given: _Flow) -> _Flow:
        if function in self._uncalled:
            self._uncalled.remove(function)
        running = f"function {function.body.id}"  # a function may define another of its own name
        if running in self._running:
            return ()
        outer = self._variables.get("@", ())
        self._variables["@"] = args
        self._running.append(running)
        try:
            with self._deeper(), self._within(function.source):
                return self._visit(function.body, given)
        finally:
            self._running.pop()
            self._variables["@"] = outer

    # Redirections.

    def _redirected(self, node: Node, given: _Flow) -> _Flow:
        body = node.child_by_field_name("body")
        line = self._redirects([child for child in node.children if child != body])
        given = line.given or given
        if body is None:
            result = self.note(self._command(line.words, (), line.redirects, given), given)
        elif body.type in _SIMPLE:
            result = self._simple(body, given, line)
        else:
            result = self._visit(body, given)
            if line.words:
                self.unread = f"{UNSEEN}: words stand behind the redirection of a compound command"
            if line.redirects:
                made = self._command((), (), line.redirects, result)
                made.prints = made.given
                self.commands.append(made)
                self._note_files(made)
                if any(redirect.writes for redirect in line.redirects):
                    made.prints = None if made.prints is None else ""
                    result = (made,)
        for behind in line.behind:  # `cat <<EOF | sh`, `cat <<EOF && ls`
            if behind.type == "pipeline":
                result = self._pipeline(behind, result)
            else:
                result = _either([result, self._branches([partial(self._visit, behind, given)])])
        return result

    def _redirects(self, nodes: Sequence[Node]) -> _Line:
        """Expand redirections, and what tree-sitter puts into them."""
        line = _Line()
        for before, node in zip((None, *nodes), nodes, strict=False):
            if node.type == "file_redirect":
                self._redirect(node, line, here_string=_is_here_string(node, before))
            elif node.type == "herestring_redirect":
                named = [child for child in node.children if child.is_named]
                line.documents.append("".join(word.text for word in self._words(named, splits=False)) + "\n")
            elif node.type == "heredoc_redirect":
                self._document(node, line)
        if line.documents:
            line.given = (Command(prints="".join(line.documents)),)
        return line

    def _redirect(self, node: Node, line: _Line, *, here_string: bool) -> None:
        """Expand `> file` or `3< file`; tree-sitter has `<<<` so as well behind another redirection."""
        descriptor = node.child_by_field_name("descriptor")
        number = _text(descriptor) if descriptor else ""
        first, *others = list(_touching(self._source, node.children_by_field_name("destination"))) or [[]]
        target, *more = self._words(first, splits=False) or [Word("-")]
        for group in others:
            line.words += self._words(group)
        operator = next((_text(child) for child in node.children if not child.is_named), "")
        if any(child.is_error and _text(child) == ">" for child in node.children):
            operator = "<>"
        given: _Flow = (Command(prints=target.text + "\n"),) if here_string else ()
        if operator == "<" and not here_string:
            given = target.fed_by or self._writers(target.text)
        elif operator == "<&":
            given = self._writers(f"&{target.text}")
        if given and operator != "<&" and number not in ("", "0"):
            self._files[f"&{number}"] = given
        elif here_string:
            line.documents.append(target.text + "\n")
        else:
            line.given = given or line.given
        if not here_string:
            named = number + operator if number not in ("", "0", "1", "2") else operator
            line.redirects += [Redirect(named, one) for one in (target, *more)]

    def _document(self, node: Node, line: _Line) -> None:
        """Note the text of a here-document, and the rest of the line where it is opened."""
        start = next((_text(child) for child in node.children if child.type == "heredoc_start"), "")
        body = next((child for child in node.children if child.type == "heredoc_body"), None)
        text = ""
        if body is not None:
            raw = any(sign in start for sign in "'\"\\")
            text = _text(body) if raw else self._document_text(body)
            if node.children[0].type == "<<-":
                text = re.sub(r"^\t+", "", text, flags=re.MULTILINE)
        self._check_end(node, re.sub(r"['\"\\]", "", start))
        inner = self._redirects([child for child in node.children if child.type.endswith("_redirect")])
        line.documents.append(text)
        line.redirects += inner.redirects
        line.words += [*self._words(node.children_by_field_name("argument")), *inner.words]
        line.behind += [child for child in node.children if child.type == "pipeline"]
        line.behind += [*node.children_by_field_name("right"), *inner.behind]
        line.given = inner.given or line.given

    def _check_end(self, node: Node, name: str) -> None:
        """Ask about a here-document whose end tree-sitter has passed over, as behind `$`, or found too soon."""
        end = next((child.end_byte for child in node.children if child.type == "heredoc_end"), None)
        if end is None:
            return
        lines = self._between(node.start_byte, end).split("\n")
        if node.children[0].type == "<<-":
            lines = [line.lstrip("\t") for line in lines]
        if lines[-1] != name or name in lines[1:-1] or self._source[end : end + 1] not in (b"", b"\n"):
            self.unread = f"{UNSEEN}: the end of a here-document is not clear"

    # Simple commands.

    def _simple(self, node: Node, given: _Flow, line: _Line | None = None) -> _Flow:
        """Run a simple command, to which redirections and words behind it belong.

        tree-sitter takes two lines for one command where the second begins with a backslash.
        """
        line = line or _Line()
        children = [node] if node.type == "variable_assignment" else node.children
        if node.type == "test_command":
            children = list(_test_words(node))
        elif node.start_point.row != node.end_point.row:
            cuts = [at for at in range(1, len(children)) if self._begins_line(*children[at - 1 : at + 1])]
            ranges = pairwise([0, *cuts, len(children)])
            return _joined([self._one_line(children[start:end], given, line) for start, end in ranges])
        return self._one_line(children, given, line)

    def _begins_line(self, before: Node, node: Node) -> bool:
        """Whether an unquoted end of a line stands between two words, or in the beginning of the second."""
        between = self._source[before.end_byte : node.start_byte + (node.type in ("word", "concatenation"))]
        return b"\n" in between.replace(b"\\\n", b"")

    def _one_line(self, children: Sequence[Node], given: _Flow, line: _Line) -> _Flow:
        """Expand the words of a simple command, and run it."""
        words: list[Word] = []
        assignments: list[_Assignment] = []
        declared: list[_Assignment] = []
        redirects: list[Node] = []
        for group in _touching(self._source, children):
            first = group[0]
            if first.type.endswith("_redirect"):
                redirects += group
            elif first.type == "variable_assignment":
                assigned = self._assignment(first)
                if words:
                    words.append(Word(assigned.text))
                    declared.append(assigned)
                else:
                    assignments.append(assigned)
            elif first.type not in ("comment", "ERROR") or len(group) > 1:
                words += self._words_of(group)
        if redirects:
            own = self._redirects(redirects)
            words += own.words
            line = replace(line, redirects=own.redirects + line.redirects)
            given = own.given or given
        return self._run([*words, *line.words], assignments, declared, line.redirects, given)

    def _run(
        self,
        words: Sequence[Word],
        assignments: Sequence[_Assignment],
        declared: Sequence[_Assignment],
        redirects: Sequence[Redirect],
        given: _Flow,
    ) -> _Flow:
        """Run a simple command whose words are expanded."""
        before = dict(self._variables) if words and assignments else None
        for assigned in assignments:
            self._assign(assigned)
        if self._files:
            words = [word if word.fed_by else replace(word, fed_by=self._writers(word.text)) for word in words]
        if not (words or assignments or redirects):
            return ()
        read = tuple(one for word in words[1:] if word.text.startswith("/dev/fd/") for one in word.fed_by)
        values = [(one.name, _one_word(one.value)) for one in assignments]
        command = self._command(words, values, redirects, (*read, *given) if read else given)
        if read:
            command.given = _printed_by(given) if given else None
        flow = self._dispatch(command, given, declared)
        if before is not None:
            self._variables = before
        return flow

    def _command(
        self,
        words: Sequence[Word],
        values: Sequence[tuple[str, Word]] = (),
        redirects: Sequence[Redirect] = (),
        given: _Flow = (),
    ) -> Command:
        text = _printed_by(given) if given else None
        return Command(tuple(words), tuple(values), tuple(redirects), given, text, self._directory, self._start)

    def _dispatch(self, command: Command, given: _Flow, declared: Sequence[_Assignment] = ()) -> _Flow:
        """Note a command, and expand an alias or call a function of its name."""
        flow = self.note(command, given)
        for assigned in declared:
            self._assign(assigned)
        name = command.words[0].text if command.words else ""
        alias, function = self._aliases.get(name), self._functions.get(name)
        if alias is not None and f"alias {name}" not in self._running:
            self._running.append(f"alias {name}")
            try:
                quoted = (word.text if word.glob else shlex.quote(word.text) for word in command.args)
                return self.text(" ".join((alias, *quoted)), given)
            finally:
                self._running.pop()
        return self._call(function, command.args, given) if function is not None else flow

    def note(self, command: Command, given: _Flow) -> _Flow:
        """Note a command with all that it runs in its turn, and return the commands that print."""
        self._spend(_COST + sum(len(word.text) for word in command.words) + len(command.fed_by))
        if time.thread_time() > self._ends:
            raise TooMuchError(_TOO_LONG)
        command.prints = printed(command)
        command.lists = listed(command)
        self.commands.append(command)
        self._follow(command)
        found = runs(command)
        self.findings += found.reasons
        for guess in found.guesses:
            with self._apart(), self._deeper():
                self.note(guess, given)
        if found.commands or found.texts:
            inner = self._carry(command, found, given)
            if command.prints is None and len(inner) == 1:  # sudo echo prints what echo prints
                command.prints = _printed_by(inner[0])
        if command.redirects or command.name in _WRITING:
            self._note_files(command)
        apart = any(one.writes and one.operator in (">", ">>", ">|", "&>", "&>>") for one in command.redirects)
        return (replace(command, prints=""),) if apart else (command,)

    def _carry(self, command: Command, found: Runs, given: _Flow) -> list[_Flow]:
        """Note the commands that a command runs, and read the texts."""
        inner: list[_Flow] = []
        same = command.name in _SAME_SHELL
        with self._deeper():
            for one in found.commands:
                if same:
                    inner.append(self._dispatch(one, given))
                else:
                    with self._apart():
                        inner.append(self.note(one, given))
            for script in found.texts:
                with nullcontext() if same else self._apart():
                    if found.arguments is not None:
                        self._variables["0"], self._variables["@"] = found.arguments[:1], found.arguments[1:]
                    elif not same:
                        self._variables["@"] = _UNKNOWN_VALUE
                    inner.append(self.text(script, () if script == command.given else given))
        return inner

    # What a command changes for those behind it.

    def _follow(self, command: Command) -> None:
        name, texts = command.name, command.texts
        if name in _DECLARING:
            self._declare(command)
        elif name == "alias":
            self._aliases.update((text.split("=", 1)[0], text.split("=", 1)[1]) for text in texts if "=" in text)
        elif name == "hash" and "-p" in texts[:-2]:
            self._aliases[texts[-1]] = texts[texts.index("-p") + 1]
        elif name in ("read", "mapfile", "readarray", "getopts", "unset", "let", "printf"):
            evaluated_later = name == "read" and _EVALUATES.search(command.given or "")
            value = (Word(command.given or ""),) if evaluated_later else _UNKNOWN_VALUE
            for text in (*texts, "REPLY", "MAPFILE") if name != "printf" or "-v" in texts[:1] else ():
                if found := _NAME.match(text):
                    self._variables[found[0]] = value
        elif name == "set" and (("--" in texts) or (texts and not texts[0].startswith(("-", "+")))):
            self._variables["@"] = command.args[texts.index("--") + 1 if "--" in texts else 0 :]
        elif name == "shift":
            self._variables["@"] = _UNKNOWN_VALUE
        elif name in ("cd", "pushd", "chdir"):
            place = next((text for text in texts if text == "-" or not text.startswith("-")), "~")
            there = self._previous if place == "-" else joined(self._directory, place)
            self._previous, self._directory = self._directory, there

    def _declare(self, command: Command) -> None:
        """Follow what is declared by quoted or expanded words; plain assignments are known already."""
        for text in command.texts:
            if found := _ASSIGNMENT.fullmatch(text):
                if "-n" in command.texts and command.name != "export":  # another name of the variable
                    self._shared |= {found[1], found[4]}
                self._assign(_Assignment(found[1], (Word(found[4]),), bool(found[2]), bool(found[3])))

    def _note_files(self, command: Command) -> None:
        appends = any(one.operator.endswith(">>") for one in command.redirects)
        for path in _files_written(command):
            self._files[path] = (*self._writers(path), command) if appends else (command,)

    def _writers(self, path: str) -> tuple[Command, ...]:
        return self._files.get(path.removeprefix("./"), ())

    # Words.

    def _assignment(self, node: Node) -> _Assignment:
        left, right = node.child_by_field_name("name"), node.child_by_field_name("value")
        name, element = _text(left) if left else "", False
        if left and left.type == "subscript":
            base, inside = left.child_by_field_name("name"), left.child_by_field_name("index")
            index = self._one([inside]).text if inside else UNKNOWN
            name, element = _text(base) if base else "", index != "0"
            name = f"{name}[{index}]" if _EVALUATES.search(index) else name
        adds = any(child.type == "+=" for child in node.children)
        if right is None or right.type != "array":
            return _Assignment(name, (self._one([right] if right else []),), element, adds)
        groups = list(_touching(self._source, right.children[1:-1]))
        value = tuple(word for group in groups for word in self._words_of(group))
        named = any(group[0].text and group[0].text.startswith(b"[") for group in groups)
        return _Assignment(name, value, named, adds, array=True)

    def _assign(self, assigned: _Assignment) -> None:
        value, before = assigned.value, self._variables.get(assigned.name, ())
        if assigned.adds and assigned.array:
            value = before + value
        elif assigned.adds and before:
            glob = before[0].glob or value[0].glob
            value = (replace(value[0], text=before[0].text + value[0].text, glob=glob), *before[1:])
        if assigned.element or assigned.name in self._shared or sum(len(word.text) for word in value) > MAX_VALUE:
            value = _UNKNOWN_VALUE
        self._variables[assigned.name] = value

    def _words(self, nodes: Sequence[Node], *, splits: bool = True) -> list[Word]:
        """Expand words that are no simple command's."""
        groups = _touching(self._source, nodes)
        return [word for group in groups for word in (self._words_of(group) if splits else [self._one(group)])]

    def _one(self, nodes: Sequence[Node]) -> Word:
        return _as_one([piece for node in nodes for piece in self._pieces(node)])

    def _words_of(self, group: Sequence[Node]) -> list[Word]:
        """Return the words that nodes become between which there is no blank."""
        source = group[0].text or b""
        self._spend(len(source))
        if len(group) == 1 and _PLAIN.fullmatch(source):
            return [Word(source.decode())]
        pieces = [piece for one in group for piece in self._pieces(one)]
        if pieces and not pieces[0].quoted and pieces[0].text.startswith("\n"):
            pieces[0] = replace(pieces[0], text=pieces[0].text.lstrip())
        separators = _one_word(self._variables["IFS"]).text[:16] if "IFS" in self._variables else " \t\n"
        words = [word for one in expand_braces(pieces) for word in split_into_words(one, separators)]
        self._spend(sum(len(word.text) for word in words))
        return words

    def _pieces(self, node: Node, *, quoted: bool = False) -> list[Piece]:
        """Return the pieces of a word, or of a part of one."""
        self._spend(1)
        if expand := _EXPANDING.get(node.type):
            return expand(self, node, quoted)
        if not quoted and node.type in ("raw_string", "ansi_c_string"):
            text = _text(node)
            return [Piece(text[1:-1] if text[0] == "'" else ansi_c(text[2:-1]))]
        if node.type != "brace_expression" and node.child_count:
            return self._span(node, node.start_byte, node.end_byte, quoted=quoted)
        return [Piece(_text(node))] if quoted else _unescaped(_text(node))

    def _dollar(self, node: Node, quoted: bool) -> list[Piece]:
        if not quoted and node.next_sibling and node.next_sibling.type == "string":
            return []  # $"text"
        self._check_dollar(node)
        return [Piece("$", quoted)]

    def _check_dollar(self, node: Node) -> None:
        """Ask about `$` as a plain character where an expansion begins, as tree-sitter has `a$IFS/` now and then."""
        if _BEGINS_EXPANSION.match(self._source, node.end_byte):
            self.unread = f"{UNSEEN}: its syntax is not clear enough to be judged"

    def _span(self, node: Node, start: int, end: int, *, quoted: bool) -> list[Piece]:
        """Return the pieces of a part of a node: its children, and the text between them."""
        pieces: list[Piece] = []
        at = start
        for child in node.children:
            if child.start_byte >= at and child.end_byte <= end:
                pieces += _plain(self._between(at, child.start_byte), quoted=quoted)
                pieces += self._pieces(child, quoted=quoted)
                at = child.end_byte
        return pieces + _plain(self._between(at, end), quoted=quoted)

    def _string(self, node: Node, quoted: bool) -> list[Piece]:
        at, end = node.start_byte + 1, node.end_byte - 1
        pieces: list[Piece] = []
        for child in node.children:
            if child.type == "$":
                self._check_dollar(child)
            if not child.is_named or child.type == "string_content":
                continue
            text = child.text or b""
            blanks = len(text) - len(text.lstrip())  # which tree-sitter puts into the next node
            pieces.append(Piece(_in_quotes(self._between(at, child.start_byte + blanks))))
            pieces += self._pieces(child, quoted=True)
            at = child.end_byte
        pieces.append(Piece(_in_quotes(self._between(at, end))))
        return pieces

    def _document_text(self, node: Node) -> str:
        """Return the text of a here-document whose end is not quoted. tree-sitter leaves backticks in it to us."""
        scripts = [found[1].decode(errors="replace") for found in _BACKTICKS.finditer(node.text or b"")]
        for script in scripts:
            with self._apart():
                self.text(re.sub(r"\\([`\\$])", r"\1", script), ())
        at, texts = node.start_byte, []
        for child in node.children:
            if child.is_named and child.type != "heredoc_content":
                texts.append(_in_quotes(self._between(at, child.start_byte), "$`\\\n"))
                texts += [piece.text for piece in self._pieces(child, quoted=True)]
                at = child.end_byte
        texts.append(_in_quotes(self._between(at, node.end_byte), "$`\\\n"))
        return UNKNOWN if scripts else "".join(texts)

    def _substitution(self, node: Node, quoted: bool) -> list[Piece]:
        text = _text(node).strip()
        redirects = [child for child in node.children if child.type == "file_redirect"]
        with self._apart(), self._deeper():
            if text.startswith("`") and "\\" in text:
                escapable = r'\\([`\\$"])' if quoted else r"\\([`\\$])"
                flow = self.text(re.sub(escapable, r"\1", text[1:-1]), ())
            elif redirects:  # $(<file)
                destinations = [child for one in redirects for child in one.children_by_field_name("destination")]
                words = (Word("cat"), *self._words(destinations))
                flow = self._redirects(redirects).given or self.note(self._command(words), ())
            else:
                flow = self._sequence(node.children, ())
        return [self._output(flow, quoted=quoted)]

    def _output(self, flow: _Flow, *, quoted: bool) -> Piece:
        text = _printed_by(flow)
        text = UNKNOWN if text is None or len(text) > MAX_VALUE else text.rstrip("\n")
        return Piece(text, quoted, expanded=True, fed_by=flow)

    def _process(self, node: Node, quoted: bool) -> list[Piece]:
        reads = _text(node).startswith(">")
        with self._apart(), self._deeper():
            flow = self._sequence(node.children, (Command((Word(UNKNOWN),)),) if reads else ())
        return [Piece("/dev/fd/63", fed_by=() if reads else flow or (Command(prints=""),))]

    def _computed(self, node: Node, quoted: bool) -> list[Piece]:
        self._arithmetic(node)
        return [Piece("1", quoted)]

    def _empty(self, node: Node, quoted: bool) -> list[Piece]:
        return []

    def _arithmetic(self, node: Node, but: Node | None = None) -> None:
        """Read the substitutions in an expression, and the values of variables in it that hold some."""
        nodes = [child for child in node.children if child != but]
        while nodes:
            one = nodes.pop()
            if one.type in ("command_substitution", "expansion", "simple_expansion", "string", "process_substitution"):
                self._pieces(one)
                continue
            if one.type in ("variable_name", "word"):
                self._evaluate(_text(one))
            if one.type in ("variable_assignment", "binary_expression"):
                left = one.child_by_field_name("name") or one.child_by_field_name("left")
                if left and _NAME.fullmatch(_text(left)) and "=" in _text(one).replace("==", ""):
                    self._variables[_text(left)] = (Word("1"),)
            nodes += one.children

    def _evaluate(self, name: str) -> None:
        for word in self._variables.get(name, ()):
            if _EVALUATES.search(word.text):
                self.text(": " + evaluated(word.text), ())

    # Variables.

    def _simple_expansion(self, node: Node, quoted: bool) -> list[Piece]:
        if not quoted and _text(node)[1:2].isspace():  # a lone `$`, with the word behind it as its name
            self.unread = f"{UNSEEN}: its syntax is not clear enough to be judged"
        name = _text(node)[1:]
        return [Piece(_text(node))] if name[:1].isspace() else self._value(name, "", quoted=quoted)

    def _expansion(self, node: Node, quoted: bool) -> list[Piece]:
        found = _EXPANSION.fullmatch(node.text or b"")
        unknown = [Piece(UNKNOWN, quoted, expanded=True)]
        if not found:
            self._span(node, node.start_byte + 2, node.end_byte - 1, quoted=True)
            return unknown
        prefix, name, rest = (found[group].decode(errors="replace") for group in (1, 2, 4))
        index, start = "", node.start_byte
        if found[3] is not None:
            pieces = self._span(node, start + found.start(3), start + found.end(3), quoted=False)
            index = "".join(piece.text for piece in pieces)
        if prefix == "#":
            return [Piece("1", quoted)]
        operator = (_OPERATOR.match(rest) or [""])[0]
        operand = self._operand(node, start + found.start(4) + len(operator), quoted=quoted)
        value = self._value(name, index, quoted=quoted)
        if prefix == "!":
            return unknown
        return self._operated(name, value, rest, operand, quoted=quoted) if operator else value

    def _operated(self, name: str, value: list[Piece], rest: str, operand: list[Piece], *, quoted: bool) -> list[Piece]:
        """Return what an operator such as `:-` or `%` makes of the value of a variable."""
        text, given = ("".join(piece.text for piece in pieces) for pieces in (value, operand))
        sign = rest.lstrip(":")[:1]
        made = [Piece(UNKNOWN, quoted, expanded=True)]
        if rest == "@P":  # expanded as a prompt
            self.text(": " + evaluated(text), ())
        elif sign == "+":
            made = operand
        elif sign and sign in "-=?":
            if sign == "=" and text in ("", UNKNOWN):
                self._variables[name] = (Word(given or UNKNOWN),)
            made = value if text not in ("", UNKNOWN) else operand if given else made
        return made

    def _operand(self, node: Node, start: int, *, quoted: bool) -> list[Piece]:
        """Return the word of `${x:-word}`. Substitutions that tree-sitter takes for text are read on their own."""
        leaves = [child for child in node.children if child.start_byte >= start]
        if quoted and any(child.type == "raw_string" and _ENDS_QUOTE.search(_text(child)) for child in leaves):
            self.unread = f"{UNSEEN}: shells differ in what a quote means within a quoted expansion"
        for child in leaves:
            if not child.child_count and child.type != "raw_string" and _SUBSTITUTES.search(_text(child)):
                self.text(": " + _text(child), ())
                return [Piece(UNKNOWN, quoted, expanded=True)]
        pieces = self._span(node, start, node.end_byte - 1, quoted=quoted)
        return [replace(piece, expanded=True) if not piece.quoted else piece for piece in pieces]

    def _value(self, name: str, index: str, *, quoted: bool) -> list[Piece]:
        """Return the value of a variable, or all elements of an array; one element of several is UNKNOWN."""
        if name in ("@", "*"):
            name, index = "@", name
        position = int(name[:6]) if name.isdigit() else 0
        items = self._variables.get("@", ()) if position else self._variables.get(name)
        if position:
            known = all(word.quoted for word in items or ())
            items = (*(items or ()), *[Word("")] * position)[position - 1 : position] if known else _UNKNOWN_VALUE
        if items is None:
            if name == "@":
                return []
            told = (Command((Word("printenv"), Word(name))),) if holds_secret(name) else ()
            return [Piece(_KNOWN.get(name, UNKNOWN), quoted, expanded=True, fed_by=told)]
        if index not in ("@", "*") and (len(items) != 1 or index not in ("", "0")):
            items = (Word(UNKNOWN),)
        ends = index == "@" or not quoted
        last = len(items) - 1
        return [
            Piece(one.text, quoted and one.quoted, True, one.glob, ends and at < last, one.fed_by)
            for at, one in enumerate(items)
        ]


@dataclass(slots=True)
class _Line:
    """Redirections after their expansions, and the rest of their line, which tree-sitter puts into them."""

    redirects: list[Redirect] = field(default_factory=list)
    given: _Flow = ()
    """The commands whose output they give to read."""
    documents: list[str] = field(default_factory=list)
    behind: list[Node] = field(default_factory=list)
    """The commands behind a here-document: `cat <<EOF | sh`."""
    words: list[Word] = field(default_factory=list)
    """The arguments behind a redirection: `rm >log -rf x`."""


@dataclass(frozen=True, slots=True)
class _Assignment:
    name: str
    value: _Value
    element: bool = False
    """Whether it sets elements of an array, which are not followed one by one."""
    adds: bool = False
    array: bool = False

    @property
    def text(self) -> str:
        """The assignment as one word."""
        return f"{self.name}{'[0]' if self.element else ''}{'+' * self.adds}={_one_word(self.value).text}"


_SIMPLE = frozenset(
    {"command", "declaration_command", "unset_command", "test_command", "variable_assignment", "variable_assignments"}
)
_HANDLERS: dict[str, Callable[[_Reader, Node, _Flow], _Flow]] = {
    **dict.fromkeys(_SIMPLE, _Reader._simple),
    "compound_statement": _Reader._compound,
    "subshell": _Reader._subshell,
    "list": _Reader._list,
    "pipeline": _Reader._pipeline,
    "if_statement": _Reader._if,
    "case_statement": _Reader._case,
    "while_statement": _Reader._while,
    "for_statement": _Reader._for,
    "c_style_for_statement": _Reader._c_style_for,
    "function_definition": _Reader._function,
    "redirected_statement": _Reader._redirected,
    "comment": _Reader._ignore,
    "heredoc_start": _Reader._ignore,
}
_EXPANDING: dict[str, Callable[[_Reader, Node, bool], list[Piece]]] = {
    "string": _Reader._string,
    "simple_expansion": _Reader._simple_expansion,
    "expansion": _Reader._expansion,
    "command_substitution": _Reader._substitution,
    "process_substitution": _Reader._process,
    "arithmetic_expansion": _Reader._computed,
    "``": _Reader._empty,
    "$": _Reader._dollar,
}


def _joined(flows: Sequence[_Flow]) -> _Flow:
    """Return what several commands print one after the other."""
    return tuple(command for flow in flows for command in flow)


def _either(flows: Sequence[_Flow]) -> _Flow:
    """Return what some of several commands print, so that the text is not known if more than one prints any."""
    printing = [flow for flow in flows if _printed_by(flow) != ""]
    both = _joined(flows)
    return both if len(printing) < 2 else tuple(replace(command, prints=None) for command in both)


def _printed_by(commands: Sequence[Command]) -> str | None:
    texts = [command.prints for command in commands]
    return None if None in texts else "".join(text for text in texts if text)


def _one_word(value: _Value) -> Word:
    return value[0] if len(value) == 1 else Word(" ".join(word.text for word in value))


# The tree.


def _touching(source: bytes, nodes: Sequence[Node]) -> Iterator[list[Node]]:
    """Return nodes in groups between which there is no blank: each is one word, of which tree-sitter may make two."""
    group: list[Node] = []
    for node in nodes:
        between = source[group[-1].end_byte : node.start_byte] if group else b""
        if group and (between.replace(b"\\\n", b"") or node.type.endswith(("_redirect", "_assignment"))):
            yield group
            group = []
        group.append(node)
    if group:
        yield group


def _test_words(node: Node) -> Iterator[Node]:
    nodes = list(reversed(node.children))
    while nodes:
        child = nodes.pop()
        if child.type in ("binary_expression", "unary_expression", "parenthesized_expression", "postfix_expression"):
            nodes += reversed(child.children)
        else:
            yield child


def _is_here_string(node: Node, before: Node | None) -> bool:
    """Whether tree-sitter has made an error and a redirection of `<<<`, as it does behind another redirection."""
    if any(child.is_error and _text(child) == "<<" for child in node.children):
        return True
    return before is not None and before.is_error and _text(before) == "<<" and before.end_byte == node.start_byte


def _has_error(root: Node) -> bool:
    """Whether there is an error in a tree that is no form that is read as it should be."""
    nodes = [root]
    while nodes:
        node = nodes.pop()
        if node.is_missing or (node.is_error and not _is_benign(node)):
            return True
        nodes += [child for child in node.children if child.has_error]
    return False


def _is_benign(node: Node) -> bool:
    """Whether an error of tree-sitter is a form that is read as it should be."""
    text, behind, parent = _text(node), node.next_sibling, node.parent
    if text == "<<" and behind is not None and behind.start_byte == node.end_byte:
        return _text(behind).startswith("<")
    if text == ">" and parent is not None and parent.type == "file_redirect":
        return True
    return bool(_UNENDED.fullmatch(text)) and (behind is None or behind.start_point.row == _last_row(node))


def _last_row(node: Node) -> int:
    """Return the number of the last line of a text that a node stands in."""
    while node.parent is not None:
        node = node.parent
    return node.end_point.row


def _starts_itself(name: str, body: Node) -> bool:
    """Whether a function calls itself in a pipeline or in the background."""
    nodes = [(body, False)]
    while nodes:
        node, apart = nodes.pop()
        if node.type == "command_name" and apart and _text(node) == name:
            return True
        for child, behind in zip_longest(node.children, node.children[1:]):
            background = behind is not None and behind.type == "&"
            nodes.append((child, apart or background or child.type == "pipeline"))
    return False


# Quotes.


def _as_one(pieces: list[Piece]) -> Word:
    words = split_into_words([replace(piece, quoted=piece.quoted or piece.expanded, ends=False) for piece in pieces])
    return words[0] if words else Word("")


def _plain(text: str, *, quoted: bool) -> list[Piece]:
    if not text:
        return []
    return [Piece(_in_quotes(text))] if quoted else _unescaped(text)


def _unescaped(text: str) -> list[Piece]:
    """Return the pieces of a text that is not quoted."""
    if "\\" not in text:
        return [Piece(text, quoted=False)]
    pieces = []
    for found in re.finditer(r"\\(\n|.)|[^\\]+|\\", text, re.DOTALL):
        if found[1] is None:
            pieces.append(Piece(found[0], quoted=False))
        elif found[1] != "\n":
            pieces.append(Piece(found[1]))
    return pieces


def _in_quotes(text: str, escapable: str = '$`"\\\n') -> str:
    """Return the text of a string in double quotes without its backslashes."""
    if "\\" not in text:
        return text
    return re.sub(
        r"\\(.)", lambda found: found[1].strip("\n") if found[1] in escapable else found[0], text, flags=re.DOTALL
    )


_WRITING = frozenset({"tee", "curl", "wget", *COPYING})


def _files_written(command: Command) -> Iterator[str]:
    paths = [redirect.target.text for redirect in command.redirects if redirect.writes]
    if command.name == "tee":
        paths += [text for text in command.texts if not text.startswith("-")]
    elif command.name in ("curl", "wget"):
        options = Options.of(
            command.args, ("-o", "--output") if command.name == "curl" else ("-O", "--output-document")
        )
        paths += [value for _, value in options.values]
        paths += [word.text.rpartition("/")[2] for word in options.operands]
    elif command.name in COPYING:
        *sources, target = [word.text for word in Options.of(command.args).operands] or [""]
        paths += [target, *(f"{target.rstrip('/')}/{source.rpartition('/')[2]}" for source in sources)]
        paths += [source.rpartition("/")[2] for source in sources] if target == "." else []
    for path in paths:
        yield path.removeprefix("./")
