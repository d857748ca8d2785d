"""Reading shell text with tree-sitter: the commands that it would run, as far as its literal text tells.

Every branch is followed. Variables, arrays, functions, aliases, the directory and files that the text itself sets are
known from then on; everything else is UNKNOWN.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING

from environments.approvals.command import UNKNOWN, Command, Redirect, Word
from environments.approvals.options import Options
from environments.approvals.runners import runs
from environments.approvals.words import MAX_VALUE, Piece, TooMuchError, ansi_c, expand_braces, printed, split_into_words

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

MAX_CHARACTERS = 100_000
"""A longer text is not read at all. Commands that carry a file in a here-document are mostly shorter."""
_MAX_DEPTH = 24
_MAX_NESTING = 120
_COST = 25
"""The cost of a command in characters, beside its own: judging one takes as long as reading so many."""
_MAX_CHOICES = 64
_SAME_SHELL = frozenset("eval . source trap alias builtin command time ! { } then do else elif if while until exec".split())
"""Programs whose commands run in the same shell, so that variables and the directory stay."""
_DECLARING = frozenset({"export", "declare", "local", "typeset", "readonly"})
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(?:\[([^\]]*)\])?(\+?)=(.*)", re.DOTALL)
_NAME = re.compile(r"[A-Za-z_]\w*")
_EXPANSION = re.compile(r"\$\{([!#]?)([A-Za-z_]\w*|[0-9]+|[@*#?$!-])(?:\[((?:[^\[\]]|\[[^\]]*\])*)\])?(.*)\}", re.DOTALL)
_OPERATOR = re.compile(r":?[-=?+]|[#%/^,@:]")
_KNOWN = {
    "HOME": "~",
    "PWD": ".",
    "TMPDIR": "/tmp",  # noqa: S108 - the meaning of the variable, and no file of ours
    "IFS": " \t\n",
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
_Items = tuple[tuple[str, Word], ...]
"""The elements of an array by their indices; a variable that is no array has one of the index 0."""
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
        MissingExtraError: The extra `approvals` is not installed, and the text is more than plain words.
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
    functions: dict[str, Node] = field(default_factory=dict)
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


def _text(node: Node) -> str:
    return (node.text or b"").decode(errors="replace")


class _Reader:
    def __init__(self, start: str) -> None:
        self.commands: list[Command] = []
        self.findings: list[str] = []
        self.unread = ""
        self._start = start
        self._state = _State()
        self._left = 3 * MAX_CHARACTERS
        self._depth = self._nesting = 0
        self._choices: dict[str, int] = {}
        self._met: dict[str, int] = {}
        self._running: list[str] = []
        self._called: set[int] = set()
        self._defined: dict[int, tuple[str, Node]] = {}

    # Bounds.

    def _spend(self, characters: int) -> None:
        self._left -= characters
        if self._left < 0:
            raise TooMuchError("it is too long, or unfolds to too much, to be judged")

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
        source = text.encode(errors="replace")
        root = _parser().parse(source).root_node
        if root.has_error:
            self._note_errors(root)
        with self._deeper():
            return self._sequence(root.children, given)

    def _note_errors(self, root: Node) -> None:
        nodes = [root]
        while nodes:
            node = nodes.pop()
            if node.is_missing or (node.is_error and not _is_benign(node)):
                self.unread = "it cannot be seen through: it is no shell text that can be parsed to its end"
                return
            nodes += [child for child in node.children if child.has_error]

    def uncalled(self) -> None:
        """Read the functions that nothing has called, as something else may."""
        for key, (name, body) in list(self._defined.items()):
            if key not in self._called:
                self._call(name, body, None, _Flow())

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
        words = self._words(values) if any(child.type == "in" for child in node.children) else self._arguments()
        name = _text(variable) if variable else ""
        values_of_it = tuple(dict.fromkeys((("0", replace(word, quoted=True)),) for word in words))
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
            text = self._literal(name)
            self._state.functions[text] = body
            self._defined[body.id] = (text, body)
            if _starts_itself(text, body):
                self.findings.append("it is a fork bomb: a function that starts itself over and over")
        for redirect in node.children_by_field_name("redirect"):
            self._redirects([redirect])
        return _NOTHING

    def _call(self, name: str, body: Node, args: tuple[Word, ...] | None, given: _Flow) -> _Flow:
        self._called.add(body.id)
        if name in self._running:
            return _Flow()
        outer = self._state.variables.get("@")
        self._set_arguments(args)
        self._running.append(name)
        try:
            with self._deeper():
                return self._visit(body, given)
        finally:
            self._running.pop()
            self._state.variables.pop("@", None)
            if outer is not None:
                self._state.variables["@"] = outer

    def _set_arguments(self, args: tuple[Word, ...] | None) -> None:
        self._state.variables["@"] = _UNKNOWN_VALUE if args is None else (_items(args, 1),)

    def _negated(self, node: Node, given: _Flow) -> _Flow:
        return self._sequence(node.children, given)

    # Redirections.

    def _redirected(self, node: Node, given: _Flow) -> _Flow:
        body = node.child_by_field_name("body")
        others = [child for child in node.children if child != body]
        redirects, flow, behind = self._redirects(others)
        given = flow or given
        if body is None:
            command = Command((), (), redirects, given.commands, given.text, self._state.directory, self._start)
            return self._then(behind, self.note(command, given), given)
        if body.type in _SIMPLE:
            result = self._simple(body, given, redirects)
        else:
            result = self._visit(body, given)
            if redirects:
                self.commands.append(
                    made := Command((), (), redirects, result.commands, None, self._state.directory, self._start, prints=result.text)
                )
                self._note_files(made)
                if any(redirect.writes for redirect in redirects):
                    result = _Flow((made,), "")
        return self._then(behind, result, given)

    def _then(self, behind: list[Node], result: _Flow, given: _Flow) -> _Flow:
        """Go on with what tree-sitter puts into a here-document: `cat <<EOF | sh`, `cat <<EOF && ls`."""
        for node in behind:
            if node.type == "pipeline":
                result = self._pipe([child for child in node.children if child.is_named], result)
            else:
                before = self._state.copy()
                result = _either([result, self._visit(node, given)])
                self._merge_before(before)
        return result

    def _redirects(self, nodes: Sequence[Node]) -> tuple[tuple[Redirect, ...], _Flow | None, list[Node]]:
        """Return redirections, what they give to read, and what stands in a here-document's first line behind it."""
        found: list[Redirect] = []
        behind: list[Node] = []
        given: _Flow | None = None
        documents: list[str] = []
        for at, node in enumerate(nodes):
            if node.type == "file_redirect":
                here_string = _is_here_string(node, nodes[at - 1] if at else None)
                descriptor = node.child_by_field_name("descriptor")
                number = _text(descriptor) if descriptor else ""
                targets = [
                    word for child in node.children_by_field_name("destination") for word in self._words([child], splits=False)
                ]
                operator = next((_text(child) for child in node.children if not child.is_named), "")
                if any(child.is_error and _text(child) == ">" for child in node.children):
                    operator = "<>"
                for target in targets or [Word("-")]:
                    if here_string:
                        documents.append(target.text + "\n")
                        if number:
                            self._state.files[f"&{number}"] = Command(prints=target.text + "\n")
                            documents.pop()
                        continue
                    found.append(Redirect(number + operator if number not in ("", "0", "1", "2") else operator, target))
                    if operator == "<":
                        given = self._from_file(target)
                        if number not in ("", "0"):
                            self._state.files[f"&{number}"] = Command(fed_by=given.commands, prints=given.text)
                            given = None
                    elif operator == "<&":
                        given = self._from_file(Word(f"&{target.text}"))
            elif node.type == "herestring_redirect":
                texts = [word.text for child in node.children if child.is_named for word in self._words([child], splits=False)]
                documents.append("".join(texts) + "\n")
            elif node.type == "heredoc_redirect":
                body, more, rest = self._document(node)
                documents.append(body)
                found += more
                behind += rest
        if documents:
            given = _Flow(text="".join(documents))
        return tuple(found), given, behind

    def _from_file(self, target: Word) -> _Flow:
        writers = target.fed_by or self._writer_of(target.text)
        if not writers:
            return _Flow()
        return _Flow(writers, _printed_by(writers))

    def _document(self, node: Node) -> tuple[str, list[Redirect], list[Node]]:
        start = next((_text(child) for child in node.children if child.type == "heredoc_start"), "")
        body = next((child for child in node.children if child.type == "heredoc_body"), None)
        text = ""
        if body is not None:
            raw = any(sign in start for sign in "'\"\\")
            text = _text(body) if raw else "".join(piece.text for piece in self._string(body, document=True))
            if node.children[0].type == "<<-":
                text = re.sub(r"^\t+", "", text, flags=re.MULTILINE)
        others = [child for child in node.children if child.type.endswith("_redirect")]
        redirects, _, behind = self._redirects(others)
        rest = [child for child in node.children if child.type == "pipeline"]
        rest += node.children_by_field_name("right")
        return text, list(redirects), rest + behind

    # Simple commands.

    def _simple(self, node: Node, given: _Flow, redirects: tuple[Redirect, ...] = ()) -> _Flow:
        """Read a simple command once for each choice among the alternatives of its variables."""
        flows = []
        pending: list[dict[str, int]] = [{}]
        outer = self._choices, self._met
        spent = 0
        state = self._state
        after: _State | None = None
        while pending:
            self._choices = pending.pop()
            self._met = {}
            choices = self._choices
            self._state = state if not pending and not spent else state.copy()
            before = state.copy() if not spent else None
            prepared = self._prepared(node)
            for name, number in self._met.items():
                chosen = choices
                for other in range(1, number):
                    pending.append({**chosen, name: other})
                choices = {**choices, name: 0}
            spent += 1
            if spent > _MAX_CHOICES or len(pending) > _MAX_CHOICES:
                raise TooMuchError("it unfolds to too much to be judged")
            if pending and before is not None:
                state = before
            self._choices, self._met = outer
            flows.append(self._run(prepared, given, redirects))
            if after is None:
                after = self._state
            else:
                after.merge(self._state)
        assert after is not None
        self._state = after
        return flows[0] if len(flows) == 1 else _either(flows)
