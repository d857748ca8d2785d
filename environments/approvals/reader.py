"""Reading shell text with tree-sitter: the commands that it would run, as far as its literal text tells.

Every branch is followed. Variables, arrays, functions, aliases, the directory and files that the text itself sets are
known from then on; everything else is UNKNOWN.
"""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cache
from itertools import pairwise, zip_longest
from typing import TYPE_CHECKING, TypeVar

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

MAX_CHARACTERS = 100_000
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
_MAX_CHOICES = 64
_SAME_SHELL = names("eval . source trap alias builtin command time ! { } then do else elif if while until exec")
"""Programs whose commands run in the same shell, so that variables and the directory stay."""
_DECLARING = frozenset({"export", "declare", "local", "typeset", "readonly"})
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(?:\[([^\]]*)\])?(\+?)=(.*)", re.DOTALL)
_NAME = re.compile(r"[A-Za-z_]\w*")
_EXPANSION = re.compile(
    rb"\$\{([!#]?)([A-Za-z_]\w*|[0-9]+|[@*#?$!-])(?:\[((?:[^\[\]]|\[[^\]]*\])*)\])?(.*)\}", re.DOTALL
)
_ELEMENT = re.compile(r"\[([^\]]*)\]=(.*)", re.DOTALL)
_BACKTICKS = re.compile(rb"(?<!\\)`((?:[^`\\]|\\.)*)`", re.DOTALL)
_UNENDED = re.compile(r"<<-?\s*(['\"\\]?)\w+\1")
"""A here-document without a body."""
_LONE_SLASH = re.compile(r"(\s)/(?=\s+\]\])")
"""`[[ -d / ]]`, in which tree-sitter takes the slash for the sign of a division."""
_BEGINS_EXPANSION = re.compile(rb"[\w{(@*#?!-]|\\\n[\w{(@*#?!-]")
_ENDS_QUOTE = re.compile(r"""[$`"}\\]""")
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
_T = TypeVar("_T")
_Items = tuple[tuple[str, Word], ...]
"""The elements of an array by their indices; a variable that is no array has one of the index 0."""
_Assigned = tuple[str, str, str, "Word | _Items"]
"""A name, an index or nothing, `=` or `+=`, and the value."""
_UNKNOWN_VALUE: tuple[_Items, ...] = ((("0", Word(UNKNOWN)),),)


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
        reader.text(text, _Flow())
        reader.uncalled()
    except TooMuchError as error:
        reader.unread = str(error)
    except RecursionError:  # a caller may have left little room
        reader.unread = "it is nested too deep to be judged"
    return Reading(tuple(reader.commands), tuple(dict.fromkeys(reader.findings)), reader.unread)


@cache
def _parser() -> Parser:
    try:
        import tree_sitter
        import tree_sitter_bash
    except ImportError as error:
        from environments.extras import missing_library

        raise missing_library("judging commands", error.name or "tree_sitter", "approvals") from error
    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


@dataclass(frozen=True, slots=True)
class _Flow:
    """Text on its way from commands to a command."""

    commands: tuple[Command, ...] = ()
    text: str | None = None
    """The text itself, where it is known."""


_NOTHING = _Flow(text="")


@dataclass(slots=True)
class _State:
    """All that one command changes for those behind it."""

    variables: dict[str, tuple[_Items, ...]] = field(default_factory=dict)
    """Alternatives of their values."""
    references: dict[str, str] = field(default_factory=dict)
    functions: dict[str, _Function] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    files: dict[str, Command] = field(default_factory=dict)
    """The command that has written a file."""
    directory: str = ""
    previous: str = ""

    def copy(self) -> _State:
        return _State(
            dict(self.variables),
            dict(self.references),
            dict(self.functions),
            dict(self.aliases),
            dict(self.files),
            self.directory,
            self.previous,
        )

    def merge(self, other: _State) -> None:
        """Keep the values of both as alternatives; a variable that only one of them sets has the value set."""
        for name, value in other.variables.items():
            here = self.variables.get(name, value)
            if here != value:
                both = tuple(dict.fromkeys((*here, *value)))
                self.variables[name] = both if len(both) <= _MAX_CHOICES else _UNKNOWN_VALUE
            else:
                self.variables[name] = value
        for mine, others in ((self.functions, other.functions), (self.aliases, other.aliases)):
            for name, one in others.items():
                mine.setdefault(name, one)  # type: ignore[arg-type]
        self.files.update(other.files)


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
        self._state = _State()
        self._left = _MAX_COST
        self._ends = time.thread_time() + _MAX_SECONDS
        self._depth = self._nesting = 0
        self._choices: dict[str, int] | None = None
        """The alternatives chosen while the words of one command are expanded."""
        self._pending: list[dict[str, int]] = []
        self._deferred: list[tuple[str, _State]] = []
        self._running: list[str] = []
        self._called: set[int] = set()
        self._defined: dict[int, _Function] = {}
        self._source = b""
        """The text that is read now."""

    # Bounds.

    def _spend(self, characters: int) -> None:
        self._left -= characters
        if self._left < 0 or time.thread_time() > self._ends:
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
        """Read shell text in the present state, and return what it prints."""
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
        """Read the texts of traps, and the functions that nothing has called, as something else may."""
        for script, state in self._deferred:
            self._state.variables = {**state.variables, **self._state.variables}
            self._state.functions = {**state.functions, **self._state.functions}
            self.text(script, _Flow())
        for key, function in list(self._defined.items()):
            if key not in self._called:
                self._call(function, None, _Flow())

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
        return _NOTHING

    def _compound(self, node: Node, given: _Flow) -> _Flow:
        if node.children and node.children[0].type == "((":
            self._arithmetic(node)
            return _NOTHING
        return self._sequence(node.children, given)

    def _subshell(self, node: Node, given: _Flow) -> _Flow:
        with self._apart():
            return self._sequence(node.children, given)

    @contextmanager
    def _apart(self) -> Iterator[None]:
        """Leave the state as it was before the block."""
        before = self._state
        self._state = before.copy()
        try:
            yield
        finally:
            self._state = before

    def _list(self, node: Node, given: _Flow) -> _Flow:
        operands: list[Node] = []
        while node.type == "list":
            left, *_, right = (child for child in node.children if child.is_named and child.type != "comment")
            operands.append(right)
            node = left
        printing = [self._visit(node, given)]
        before = self._state.copy()
        for operand in reversed(operands):
            printing.append(self._visit(operand, given))
        self._merge_before(before)
        return _either(printing)

    def _merge_before(self, before: _State) -> None:
        """Count what has happened since as something that may have happened."""
        after = self._state
        if after.variables != before.variables:
            for name, value in before.variables.items():
                if after.variables.get(name) != value:
                    both = tuple(dict.fromkeys((*value, *after.variables.get(name, ()))))
                    after.variables[name] = both if len(both) <= _MAX_CHOICES else _UNKNOWN_VALUE

    def _pipeline(self, node: Node, given: _Flow) -> _Flow:
        return self._pipe([child for child in node.children if child.is_named], given)

    def _pipe(self, nodes: Sequence[Node], given: _Flow) -> _Flow:
        for node in nodes:
            with self._apart():
                given = self._visit(node, given)
            for name, command in self._written(given):
                self._state.files[name] = command
        return given

    def _written(self, flow: _Flow) -> Iterator[tuple[str, Command]]:
        for command in flow.commands:
            yield from ((path, command) for path in _files_written(command))

    def _if(self, node: Node, given: _Flow) -> _Flow:
        printing = []
        branches: list[_State] = []
        before = self._state.copy()
        for child in node.children:
            if child.type in ("elif_clause", "else_clause"):
                branches.append(self._state)
                self._state = before.copy()
                printing.append(self._visit(child, given))
            elif child.type == "then":
                before = self._state.copy()
            elif child.is_named:
                printing.append(self._visit(child, given))
        if not any(child.type == "else_clause" for child in node.children):
            branches.append(before)
        for branch in branches:
            self._state.merge(branch)
        return _either(printing)

    def _case(self, node: Node, given: _Flow) -> _Flow:
        printing = []
        before, after = self._state.copy(), self._state
        for child in node.children:
            if child.type == "case_item":
                self._state = before.copy()
                patterns = child.children_by_field_name("value")
                for pattern in patterns:
                    self._words([pattern])
                inside = [one for one in child.children if one.is_named and one not in patterns]
                printing.append(self._sequence(inside, given))
                after.merge(self._state)
            elif child.is_named:
                self._words([child])
        self._state = after
        return _either(printing)

    def _while(self, node: Node, given: _Flow) -> _Flow:
        return self._repeat(lambda: self._sequence(node.children, given))

    def _c_style_for(self, node: Node, given: _Flow) -> _Flow:
        body = node.child_by_field_name("body")
        self._arithmetic(node, but=body)
        for child in node.children:
            if child.type == "variable_assignment":
                name = child.child_by_field_name("name")
                self._state.variables[_text(name) if name else ""] = _scalar("1")
        return self._repeat(lambda: self._visit(body, given) if body else _NOTHING)

    def _for(self, node: Node, given: _Flow) -> _Flow:
        variable, body = node.child_by_field_name("variable"), node.child_by_field_name("body")
        values = node.children_by_field_name("value")
        if any(child.type == "in" for child in node.children):
            words = self._words(values)
        else:
            words = split_into_words(self._value("@", "@", quoted=True)) or [Word(UNKNOWN)]
        name = _text(variable) if variable else ""
        values_of_it: tuple[_Items, ...] = tuple(dict.fromkeys((("0", replace(word, quoted=True)),) for word in words))
        before = self._state.copy()
        if len(values_of_it) > _MAX_CHOICES:
            values_of_it = _UNKNOWN_VALUE
        if not values_of_it:
            return _NOTHING

        def once() -> _Flow:
            self._state.variables[name] = values_of_it
            return self._visit(body, given) if body else _NOTHING

        printing = self._repeat(once)
        self._merge_before(before)
        return printing if len(values_of_it) == 1 else _either([printing, printing])

    def _repeat(self, once: Callable[[], _Flow]) -> _Flow:
        """Read a loop until its variables change no more; what goes on changing is UNKNOWN."""
        printing = [once()]
        for last in (False, True):
            before = self._state.copy()
            printing.append(once())
            self._merge_before(before)
            changed = [name for name, value in self._state.variables.items() if before.variables.get(name) != value]
            if not changed:
                break
            if last:
                for name in changed:
                    self._state.variables[name] = _UNKNOWN_VALUE
                once()
        return _either(printing)

    def _function(self, node: Node, given: _Flow) -> _Flow:
        name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        if name and body:
            text = self._one([name]).text
            function = _Function(text, body, self._source)
            self._state.functions[text] = self._defined[body.id] = function
            if _starts_itself(text, body):
                self.findings.append("it is a fork bomb: a function that starts itself over and over")
        if redirects := self._redirects(node.children_by_field_name("redirect")).redirects:
            self.commands.append(self._command((), (), redirects))
        return _NOTHING

    def _call(self, function: _Function, args: tuple[Word, ...] | None, given: _Flow) -> _Flow:
        self._called.add(function.body.id)
        running = f"function {function.body.id}"  # a function may define another of its own name
        if running in self._running:
            return _Flow()
        outer = self._state.variables.get("@")
        self._set_arguments(args)
        self._running.append(running)
        try:
            with self._deeper(), self._within(function.source):
                return self._visit(function.body, given)
        finally:
            self._running.pop()
            self._state.variables.pop("@", None)
            if outer is not None:
                self._state.variables["@"] = outer

    def _set_arguments(self, args: tuple[Word, ...] | None) -> None:
        self._state.variables["@"] = _UNKNOWN_VALUE if args is None else (_items(args, 1),)

    # Redirections.

    def _redirected(self, node: Node, given: _Flow) -> _Flow:
        body = node.child_by_field_name("body")
        others = [child for child in node.children if child != body]
        found = self._redirects(others)
        redirects, behind = found.redirects, found.behind
        given = found.given or given
        if body is None:
            command = self._command(found.words, (), redirects, given)
            return self._then(behind, self.note(command, given), given)
        if body.type in _SIMPLE:
            result = self._simple(body, given, found)
        else:
            result = self._visit(body, given)
            if found.words:
                self.unread = f"{UNSEEN}: words stand behind the redirection of a compound command"
            if redirects:
                made = replace(self._command((), (), redirects, _Flow(result.commands)), prints=result.text)
                self.commands.append(made)
                self._note_files(made)
                if any(redirect.writes for redirect in redirects):
                    result = _Flow((made,), "")
        return self._then(behind, result, given)

    def _then(self, behind: Sequence[Node], result: _Flow, given: _Flow) -> _Flow:
        """Go on with what tree-sitter puts into a here-document: `cat <<EOF | sh`, `cat <<EOF && ls`."""
        for node in behind:
            if node.type == "pipeline":
                result = self._pipe([child for child in node.children if child.is_named], result)
            else:
                before = self._state.copy()
                result = _either([result, self._visit(node, given)])
                self._merge_before(before)
        return result

    def _redirects(self, nodes: Sequence[Node]) -> _Redirects:
        """Expand redirections."""
        whole = _Redirects()
        documents: list[str] = []
        for before, node in zip((None, *nodes), nodes, strict=False):
            one = _Redirects()
            if node.type == "file_redirect":
                one = self._redirect(node, here_string=_is_here_string(node, before))
            elif node.type == "herestring_redirect":
                named = [child for child in node.children if child.is_named]
                one = _Redirects(text="".join(word.text for word in self._words(named, splits=False)) + "\n")
            elif node.type == "heredoc_redirect":
                one = self._document(node)
            if one.text is not None:
                documents.append(one.text)
            whole = _Redirects(
                whole.redirects + one.redirects,
                one.given or whole.given,
                whole.behind + one.behind,
                whole.words + one.words,
            )
        return replace(whole, given=_Flow(text="".join(documents))) if documents else whole

    def _redirect(self, node: Node, *, here_string: bool) -> _Redirects:
        """Expand `> file` or `3< file`; tree-sitter has `<<<` so as well behind another redirection."""
        descriptor = node.child_by_field_name("descriptor")
        number = _text(descriptor) if descriptor else ""
        first, *others = list(_touching(self._source, node.children_by_field_name("destination"))) or [[]]
        target, *more = self._words(first, splits=False) or [Word("-")]
        behind = tuple(word for group in others for word in self._words(group))
        operator = next((_text(child) for child in node.children if not child.is_named), "")
        if any(child.is_error and _text(child) == ">" for child in node.children):
            operator = "<>"
        given: _Flow | None = None
        if here_string:
            given = _Flow(text=target.text + "\n")
        elif operator == "<":
            given = self._from_file(target)
        elif operator == "<&":
            given = self._from_file(Word(f"&{target.text}"))
        if given and operator != "<&" and number not in ("", "0"):
            self._state.files[f"&{number}"] = Command(fed_by=given.commands, prints=given.text)
            given = None
        if here_string:
            return _Redirects(text=given.text if given else None, words=behind)
        named = number + operator if number not in ("", "0", "1", "2") else operator
        return _Redirects(tuple(Redirect(named, one) for one in (target, *more)), given, words=behind)

    def _from_file(self, target: Word) -> _Flow:
        writers = target.fed_by or self._writer_of(target.text)
        if not writers:
            return _Flow()
        return _Flow(writers, _printed_by(writers))

    def _document(self, node: Node) -> _Redirects:
        """Return the text of a here-document, and the rest of the line where it is opened."""
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
        behind = [child for child in node.children if child.type == "pipeline"]
        behind += node.children_by_field_name("right")
        words = self._words(node.children_by_field_name("argument"))
        return replace(inner, text=text, behind=(*behind, *inner.behind), words=(*words, *inner.words))

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

    def _variants(self, evaluate: Callable[[], _T]) -> list[_T]:
        """Evaluate words once for each choice among the alternatives of the variables in them."""
        outer = self._choices, self._pending
        self._pending = [dict(self._choices or {})]
        found: list[_T] = []
        try:
            while self._pending:
                if len(found) + len(self._pending) > _MAX_CHOICES:
                    self._pending, self._choices = [], None  # all of them are UNKNOWN
                else:
                    self._choices = self._pending.pop()
                found.append(evaluate())
        finally:
            self._choices, self._pending = outer
        return found

    def _simple(self, node: Node, given: _Flow, behind: _Redirects | None = None) -> _Flow:
        """Run a simple command, to which redirections and words behind it belong.

        tree-sitter takes two lines for one command where the second begins with a backslash.
        """
        children = [node] if node.type == "variable_assignment" else node.children
        if node.type == "test_command":
            children = list(_test_words(node))
        else:
            cuts = [at for at in range(1, len(children)) if self._begins_line(*children[at - 1 : at + 1])]
            if cuts:
                ranges = pairwise([0, *cuts, len(children)])
                return _joined([self._expanded(children[start:end], given, behind) for start, end in ranges])
        return self._expanded(children, given, behind)

    def _begins_line(self, before: Node, node: Node) -> bool:
        """Whether an unquoted end of a line stands between two words, or in the beginning of the second."""
        between = self._source[before.end_byte : node.start_byte + (node.type in ("word", "concatenation"))]
        return b"\n" in between.replace(b"\\\n", b"")

    def _expanded(self, children: Sequence[Node], given: _Flow, behind: _Redirects | None) -> _Flow:
        """Run a simple command once for each choice among the alternatives of the variables in it."""
        variants = self._variants(lambda: self._prepared(children, behind))
        if len(variants) == 1:
            return self._run(variants[0], given)
        before = self._state
        after: _State | None = None
        flows = []
        for variant in variants:
            self._state = before.copy()
            flows.append(self._run(variant, given))
            if after is None:
                after = self._state
            else:
                after.merge(self._state)
        self._state = after or before
        return _either(flows)

    def _prepared(self, children: Sequence[Node], behind: _Redirects | None) -> _Prepared:
        """Expand the words of a simple command."""
        prepared = _Prepared()
        redirects = []
        for group in _touching(self._source, children):
            first = group[0]
            if first.type.endswith("_redirect"):
                redirects += group
            elif first.type == "variable_assignment":
                assigned = self._assignment(first)
                if not prepared.words:
                    prepared.assignments.append(assigned)
                    continue
                name, index, sign, value = assigned
                text = value.text if isinstance(value, Word) else UNKNOWN
                prepared.words.append(Word(f"{name}[{index}]{sign}{text}" if index else name + sign + text))
                prepared.declared.append(assigned)
            elif first.type not in ("comment", "ERROR") or len(group) > 1:
                pieces = [piece for one in group for piece in self._pieces(one)]
                if pieces and not pieces[0].quoted and pieces[0].text.startswith("\n"):
                    pieces[0] = replace(pieces[0], text=pieces[0].text.lstrip())
                prepared.words += self._as_words(pieces)
        own = self._redirects(redirects)
        prepared.redirects, prepared.given = own.redirects, own.given
        prepared.words += own.words
        if behind is not None:
            prepared.redirects += behind.redirects
            prepared.words += behind.words
        return prepared

    def _assignment(self, node: Node) -> _Assigned:
        left, right = node.child_by_field_name("name"), node.child_by_field_name("value")
        name, index = _text(left) if left else "", ""
        if left and left.type == "subscript":
            base, inside = left.child_by_field_name("name"), left.child_by_field_name("index")
            name = _text(base) if base else ""
            index = self._one([inside]).text if inside else UNKNOWN
        sign = "+=" if any(child.type == "+=" for child in node.children) else "="
        if right is None:
            return name, index, sign, Word("")
        if right.type != "array":
            return name, index, sign, self._one([right])
        items: list[tuple[str, Word]] = []
        place = 0
        for group in _touching(self._source, right.children[1:-1]):
            for element in self._as_words([piece for one in group for piece in self._pieces(one)]):
                found = _ELEMENT.match(element.text) if _text(group[0]).startswith("[") else None
                if found:
                    place = int(found[1]) if re.fullmatch(r"[0-9]{1,6}", found[1]) else place
                    items.append((found[1], replace(element, text=found[2])))
                else:
                    items.append((str(place), element))
                place += 1
        return name, index, sign, tuple(items)

    def _assign(self, assigned: _Assigned) -> None:
        name, index, sign, value = assigned
        name = self._state.references.get(name, name)
        alternatives = self._state.variables.get(name, ((),))
        before = alternatives[0] if len(alternatives) == 1 else _UNKNOWN_VALUE[0]
        items: _Items
        if isinstance(value, Word):
            if sign == "+=":
                old = dict(before).get(index or "0", Word(""))
                value = replace(value, text=old.text + value.text, glob=old.glob or value.glob)
            items = ((index or "0", value),)
            if index or sign == "+=":
                items = tuple({**dict(before), **dict(items)}.items())
        elif sign == "+=":
            items = (*before, *((str(int(key) + len(before)) if key.isdigit() else key, word) for key, word in value))
        else:
            items = value
        if sum(len(word.text) for _, word in items) > MAX_VALUE:
            items = _UNKNOWN_VALUE[0]
        self._state.variables[name] = (items,)

    def _run(self, prepared: _Prepared, given: _Flow) -> _Flow:
        """Run a simple command whose words are expanded."""
        given = prepared.given or given
        words = tuple(prepared.words)
        before = dict(self._state.variables) if words and prepared.assignments else None
        for assigned in prepared.assignments:
            self._assign(assigned)
        values = tuple(
            (name, value if isinstance(value, Word) else Word(" ".join(word.text for _, word in value)))
            for name, _, _, value in prepared.assignments
        )
        if self._state.files:
            words = tuple(replace(word, fed_by=word.fed_by or self._writer_of(word.text)) for word in words)
        read = tuple(one for word in words[1:] if word.text.startswith("/dev/fd/") for one in word.fed_by)
        if not (words or values or prepared.redirects):
            return _NOTHING
        command = self._command(words, values, prepared.redirects, _Flow((*read, *given.commands), given.text))
        for assigned in prepared.declared:
            self._assign(assigned)
        flow = self._dispatch(command, given)
        if before is not None:
            self._state.variables = before
        return flow

    def _command(
        self,
        words: tuple[Word, ...],
        values: tuple[tuple[str, Word], ...] = (),
        redirects: tuple[Redirect, ...] = (),
        given: _Flow | None = None,
    ) -> Command:
        given = given or _Flow()
        return Command(words, values, redirects, given.commands, given.text, self._state.directory, self._start)

    def _dispatch(self, command: Command, given: _Flow) -> _Flow:
        """Expand an alias, call a function, or note a command."""
        name = command.words[0].text if command.words else ""
        alias, function = self._state.aliases.get(name), self._state.functions.get(name)
        flow = self.note(command, given)
        if alias is not None and f"alias {name}" not in self._running:
            self._running.append(f"alias {name}")
            try:
                quoted = (word.text if word.glob else shlex.quote(word.text) for word in command.args)
                return self.text(" ".join((alias, *quoted)), given)
            finally:
                self._running.pop()
        return self._call(function, command.args, given) if function is not None else flow

    def note(self, command: Command, given: _Flow) -> _Flow:
        """Note a command with all that it runs in its turn, and return what it prints."""
        self._spend(_COST + sum(len(word.text) for word in command.words) + len(command.fed_by))
        text = printed(command)
        command = replace(command, prints=text, lists=listed(command))
        self.commands.append(command)
        self._follow(command)
        found = runs(command)
        self.findings += found.reasons
        inner = self._carry(command, found, given) if found.commands or found.texts else []
        if text is None and len(inner) == 1:  # sudo echo prints what echo prints
            text = inner[0].text
        command = replace(command, prints=text)
        self._note_files(command)
        apart = any(one.writes and one.operator in (">", ">>", ">|", "&>", "&>>") for one in command.redirects)
        return _Flow((command,), "" if apart else text)

    def _carry(self, command: Command, found: Runs, given: _Flow) -> list[_Flow]:
        """Note the commands that a command runs, and read the texts."""
        inner: list[_Flow] = []
        same = command.name in _SAME_SHELL
        state = self._state
        with self._deeper():
            for one in found.commands:
                self._state = state if same else state.copy()
                inner.append(self._dispatch(one, given) if same else self.note(one, given))
            for script in found.texts:
                self._state = state if same else state.copy()
                self._state.directory = command.directory if not same else state.directory
                if found.arguments is not None:
                    self._set_arguments(found.arguments[1:])
                    self._state.variables["0"] = (_items(found.arguments[:1], 0),)
                elif not same:
                    self._set_arguments(None)
                if command.name == "trap":
                    self._deferred.append((script, state.copy()))
                else:
                    inner.append(self.text(script, _Flow() if script == command.given else given))
        self._state = state
        return inner

    # What a command changes for those behind it.

    def _follow(self, command: Command) -> None:
        name, texts = command.name, command.texts
        if name in _DECLARING:
            self._declare(name, texts)
        elif name == "alias":
            self._state.aliases.update((text.split("=", 1)[0], text.split("=", 1)[1]) for text in texts if "=" in text)
        elif name == "hash" and "-p" in texts[:-2]:
            self._state.aliases[texts[-1]] = texts[texts.index("-p") + 1]
        elif name in ("read", "mapfile", "readarray", "getopts", "unset"):
            self._read_variables(command)
        elif name == "printf" and texts[:1] == ("-v",) and len(texts) > 1:
            variable, _, index = texts[1].partition("[")
            text = printed(command)
            self._assign((variable, index.rstrip("]"), "=", Word(UNKNOWN if text is None else text)))
        elif name == "set":
            if "--" in texts:
                self._set_arguments(command.args[texts.index("--") + 1 :])
            elif texts and not texts[0].startswith(("-", "+")):
                self._set_arguments(command.args)
        elif name == "shift":
            known = self._state.variables.get("@", ((),))
            number = int(texts[0]) if texts and re.fullmatch(r"[0-9]{1,3}", texts[0]) else 1
            certain = len(known) == 1 and known != _UNKNOWN_VALUE and known[0][:1] != (("1", Word(UNKNOWN)),)
            self._set_arguments(tuple(word for _, word in known[0])[number:] if certain else None)
        elif name in ("cd", "pushd", "chdir"):
            place = next((text for text in texts if text == "-" or not text.startswith("-")), "~")
            there = self._state.previous if place == "-" else joined(self._state.directory, place)
            self._state.previous, self._state.directory = self._state.directory, there

    def _declare(self, name: str, texts: Sequence[str]) -> None:
        for text in texts:
            found = _ASSIGNMENT.fullmatch(text)
            if found is None:
                continue
            if name != "export" and "-n" in texts:
                self._state.references[found[1]] = found[4]
            elif UNKNOWN not in text or found[1] not in self._state.variables:  # arrays are known already
                self._assign((found[1], found[2] or "", found[3] + "=", Word(found[4])))

    def _read_variables(self, command: Command) -> None:
        """Follow `read`, `mapfile`, `getopts` and `unset`."""
        name, texts, given, variables = command.name, command.texts, command.given, self._state.variables
        names = [text for text in texts if _NAME.fullmatch(text)] or ["REPLY", "MAPFILE"]
        known: list[str] | None = None
        if name == "unset":
            known = [""] * len(names)
        elif name == "read" and given is not None and "IFS" not in variables:
            first = given.strip("\n").split("\n")[0]
            if all(text in ("-r", "-a") or not text.startswith("-") for text in texts):
                known = first.split() if "-a" in texts else first.split(maxsplit=len(names) - 1)
        if known is not None and "-a" in texts:
            variables[names[0]] = (_items([Word(text) for text in known], 0),)
            return
        for at, one in enumerate(names):
            variables[one] = _UNKNOWN_VALUE if known is None else _scalar(known[at] if at < len(known) else "")

    def _note_files(self, command: Command) -> None:
        for path in _files_written(command):
            before = self._state.files.get(path)
            made = command
            appends = any(one.operator.endswith(">>") for one in command.redirects)
            if appends and before and before.prints is not None and command.prints is not None:
                made = replace(command, prints=before.prints + command.prints)
            self._state.files[path] = made

    def _writer_of(self, path: str) -> tuple[Command, ...]:
        found = self._state.files.get(path.removeprefix("./"))
        return (found,) if found else ()

    # Words.

    def _words(self, nodes: Sequence[Node], *, splits: bool = True) -> list[Word]:
        """Expand words that are no simple command's, with all alternatives of the variables in them."""

        def evaluate() -> list[Word]:
            groups = [
                [piece for node in group for piece in self._pieces(node)] for group in _touching(self._source, nodes)
            ]
            if splits:
                return [word for pieces in groups for word in self._as_words(pieces)]
            return [_as_one(pieces) for pieces in groups]

        if self._choices is not None:
            return evaluate()
        return [word for words in self._variants(evaluate) for word in words]

    def _one(self, nodes: Sequence[Node]) -> Word:
        return _as_one([piece for node in nodes for piece in self._pieces(node)])

    def _as_words(self, pieces: list[Piece]) -> list[Word]:
        value = self._state.variables.get("IFS")
        separators = dict(value[0]).get("0", Word("")).text[:16] if value else " \t\n"
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
        """Return the text of a here-document whose end is not quoted. tree-sitter leaves backticks to us."""
        at, texts = node.start_byte, []
        children = [child for child in node.children if child.is_named and child.type != "heredoc_content"]
        while True:
            children = [child for child in children if child.start_byte >= at]
            backticks = _BACKTICKS.search(self._source, at, node.end_byte)
            first = children[0].start_byte if children else node.end_byte
            if backticks and backticks.start() < first:
                texts.append(_in_quotes(self._between(at, backticks.start()), "$`\\\n"))
                script = backticks[1].decode(errors="replace")
                with self._apart():
                    flow = self.text(re.sub(r"\\([`\\$])", r"\1", script), _Flow())
                texts.append(self._output(flow, quoted=True).text)
                at = backticks.end()
                continue
            texts.append(_in_quotes(self._between(at, first), "$`\\\n"))
            if not children:
                return "".join(texts)
            texts += [piece.text for piece in self._pieces(children[0], quoted=True)]
            at = children[0].end_byte

    def _substitution(self, node: Node, quoted: bool) -> list[Piece]:
        text = _text(node).strip()
        redirects = [child for child in node.children if child.type == "file_redirect"]
        with self._apart(), self._deeper():
            if text.startswith("`") and "\\" in text:
                escapable = r'\\([`\\$"])' if quoted else r"\\([`\\$])"
                flow = self.text(re.sub(escapable, r"\1", text[1:-1]), _Flow())
            elif redirects:  # $(<file)
                destinations = [child for one in redirects for child in one.children_by_field_name("destination")]
                words = (Word("cat"), *self._words(destinations))
                flow = self._redirects(redirects).given or _Flow()
                flow = flow if flow.commands else self.note(self._command(words), _Flow())
            else:
                flow = self._sequence(node.children, _Flow())
        return [self._output(flow, quoted=quoted)]

    def _output(self, flow: _Flow, *, quoted: bool) -> Piece:
        text = UNKNOWN if flow.text is None or len(flow.text) > MAX_VALUE else flow.text.rstrip("\n")
        return Piece(text, quoted, expanded=True, fed_by=flow.commands)

    def _process(self, node: Node, quoted: bool) -> list[Piece]:
        reads = _text(node).startswith(">")
        with self._apart(), self._deeper():
            flow = self._sequence(node.children, _Flow((Command((Word(UNKNOWN),)),)) if reads else _Flow())
        return [Piece("/dev/fd/63", fed_by=() if reads else flow.commands or (Command(prints=flow.text),))]

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
                    self._state.variables[_text(left)] = _scalar("1")
            nodes += one.children

    def _evaluate(self, name: str) -> None:
        for items in self._state.variables.get(name, ()):
            for _, word in items:
                if "$(" in word.text or "`" in word.text:
                    self.text(": " + evaluated(word.text), _Flow())

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
            name = _as_one(value).text
            return unknown if rest or not _NAME.fullmatch(name) else self._value(name, "", quoted=quoted)
        return self._operated(name, value, rest, operand, quoted=quoted) if operator else value

    def _operated(self, name: str, value: list[Piece], rest: str, operand: list[Piece], *, quoted: bool) -> list[Piece]:
        """Return what an operator such as `:-` or `%` makes of the value of a variable."""
        text, given = ("".join(piece.text for piece in pieces) for pieces in (value, operand))
        sign = rest.lstrip(":")[:1]
        made = [Piece(UNKNOWN, quoted, expanded=True)]
        if rest == "@P":  # expanded as a prompt
            self.text(": " + evaluated(text), _Flow())
        elif sign == "+":
            made = operand
        elif sign and sign in "-=?":
            if sign == "=" and text in ("", UNKNOWN):
                self._state.variables[name] = _scalar(given or UNKNOWN)
            made = value if text not in ("", UNKNOWN) else operand if given else made
        elif sign and sign in "%#" and UNKNOWN not in text + given and len(text) < 300:
            made = [Piece(_trimmed(text, sign, given), quoted, expanded=True)]
        return made

    def _operand(self, node: Node, start: int, *, quoted: bool) -> list[Piece]:
        """Return the word of `${x:-word}`. Substitutions that tree-sitter takes for text are read on their own."""
        leaves = [child for child in node.children if child.start_byte >= start]
        if quoted and any(child.type == "raw_string" and _ENDS_QUOTE.search(_text(child)) for child in leaves):
            self.unread = f"{UNSEEN}: shells differ in what a quote means within a quoted expansion"
        for child in leaves:
            if not child.child_count and child.type != "raw_string" and _SUBSTITUTES.search(_text(child)):
                self.text(": " + _text(child), _Flow())
                return [Piece(UNKNOWN, quoted, expanded=True)]
        pieces = self._span(node, start, node.end_byte - 1, quoted=quoted)
        return [replace(piece, expanded=True) if not piece.quoted else piece for piece in pieces]

    def _value(self, name: str, index: str, *, quoted: bool) -> list[Piece]:
        """Return the value of a variable, or of elements of an array."""
        name = self._state.references.get(name, name)
        if (name.isdigit() and name != "0") or name in ("@", "*"):
            name, index = "@", name
        items = self._chosen(name)
        if items is None:
            if index in ("@", "*") and name == "@":
                return []
            told = (Command((Word("printenv"), Word(name))),) if holds_secret(name) else ()
            return [Piece("" if name == "@" else _KNOWN.get(name, UNKNOWN), quoted, expanded=True, fed_by=told)]
        if index in ("@", "*"):
            last = len(items) - 1
            ends = index == "@" or not quoted
            return [
                Piece(word.text, quoted, expanded=True, glob=word.glob, ends=ends and at < last, fed_by=word.fed_by)
                for at, (_, word) in enumerate(items)
            ]
        word = self._element(items, index or "0")
        return [Piece(word.text, quoted, expanded=True, glob=word.glob, fed_by=word.fed_by)]

    def _element(self, items: _Items, index: str) -> Word:
        elements = dict(items)
        if index in elements and all(word.quoted for word in elements.values()):
            return elements[index]
        if UNKNOWN in index or any(UNKNOWN in key + word.text for key, word in items):
            return Word(UNKNOWN)
        if re.fullmatch(r"-[0-9]{1,4}", index):
            return list(elements.values())[int(index)] if int(index) >= -len(elements) else Word("")
        if _NAME.fullmatch(index) and all(key.isdigit() for key in elements) and (known := self._chosen(index)):
            return elements.get(dict(known).get("0", Word("")).text, Word(UNKNOWN))
        return Word("") if index.isdigit() else Word(UNKNOWN)

    def _chosen(self, name: str) -> _Items | None:
        """Return one of the alternatives of a variable; None where nothing is known of it."""
        alternatives = self._state.variables.get(name)
        if alternatives is None or len(alternatives) == 1:
            return alternatives[0] if alternatives else None
        if self._choices is None:
            return _UNKNOWN_VALUE[0]
        if self._choices.get(name, len(alternatives)) >= len(alternatives):
            self._pending += [{**self._choices, name: other} for other in range(1, len(alternatives))]
            self._choices[name] = 0
        return alternatives[self._choices[name]]


@dataclass(frozen=True, slots=True)
class _Redirects:
    """Redirections after their expansions, and the rest of their line, which tree-sitter puts into them."""

    redirects: tuple[Redirect, ...] = ()
    given: _Flow | None = None
    """The text that they give to read."""
    behind: tuple[Node, ...] = ()
    """The commands behind a here-document: `cat <<EOF | sh`."""
    words: tuple[Word, ...] = ()
    """The arguments behind a redirection: `rm >log -rf x`."""
    text: str | None = None
    """The text of a single here-document."""


@dataclass(slots=True)
class _Prepared:
    """A simple command after its expansions."""

    words: list[Word] = field(default_factory=list)
    assignments: list[_Assigned] = field(default_factory=list)
    declared: list[_Assigned] = field(default_factory=list)
    redirects: tuple[Redirect, ...] = ()
    given: _Flow | None = None


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
    texts = [flow.text for flow in flows]
    text = None if None in texts else "".join(one for one in texts if one)
    return _Flow(tuple(command for flow in flows for command in flow.commands), text)


def _either(flows: Sequence[_Flow]) -> _Flow:
    """Return what some of several commands print."""
    printing = [flow for flow in flows if flow.text != ""]
    both = _joined(flows)
    return both if len(printing) < 2 else replace(both, text=None)


def _printed_by(commands: Sequence[Command]) -> str | None:
    texts = [command.prints for command in commands]
    return None if None in texts else "".join(text for text in texts if text)


def _items(words: Sequence[Word], first: int) -> _Items:
    return tuple((str(number), word) for number, word in enumerate(words, first))


def _scalar(text: str) -> tuple[_Items, ...]:
    return ((("0", Word(text)),),)


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


def _trimmed(text: str, sign: str, pattern: str) -> str:
    """Return a text without the longest or shortest end or beginning that a pattern fits, as of `${x%/*}`."""
    longest = pattern.startswith(sign)
    pattern = pattern.removeprefix(sign)
    cuts = range(len(text) + 1)
    if sign == "%":
        fitting = [cut for cut in cuts if fnmatchcase(text[cut:], pattern)]
        return text[: (min if longest else max)(fitting, default=len(text))]
    fitting = [cut for cut in cuts if fnmatchcase(text[:cut], pattern)]
    return text[(max if longest else min)(fitting, default=0) :]


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
