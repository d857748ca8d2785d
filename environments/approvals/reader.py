"""The reader of shell text: walks the syntax tree of the tree-sitter parser and collects the commands.

Every branch is followed. Variables, functions, the working directory and written files are tracked as far as the text
sets them literally. Everything else is UNKNOWN.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

from environments.approvals.budget import MAX_CHARACTERS, Budget, TooMuchError
from environments.approvals.command import UNKNOWN, UNSEEN, Command, Nested, Redirect, Word, word_set
from environments.approvals.expansions import UNCLEAR, Expander
from environments.approvals.outputs import Flow, concatenated, either, known_output, known_stdout
from environments.approvals.state import UNKNOWN_VALUE, Array, Assignment, Function, ReaderState, Variables, one_word
from environments.approvals.syntax import (
    adjoining,
    has_clear_end,
    has_newline_between,
    is_fork_bomb,
    is_here_string,
    parse,
    test_words,
)
from environments.approvals.wrappers import nested_commands, stand_in_files

if TYPE_CHECKING:
    from tree_sitter import Node

_MAX_TURNS = 64
"""Limit of words in a `for` loop; above the limit the variable is UNKNOWN."""
_COST = 25
"""The cost of a command in characters, beside its length: matching a command takes as long as reading so many."""
_MAX_READINGS = 5
_MAX_NESTING = 120
"""Limit of nested statements. Python's own recursion limit may be higher than its stack."""
_SAME_SHELL = word_set("eval . source alias builtin command time ! { } then do else elif if while until exec")
"""Wrappers whose commands run in the same shell, and change its variables and directory."""
_ARGUMENTS = re.compile(r'(?:exec\s+)?"\$@"')
"""The arguments of a script as a command, chosen by the caller of the script."""
_DESCRIPTOR = re.compile(r"/(?:dev|proc/\w+)/fd/[1-9]\d*")
_UNKNOWN_OUTPUT: Flow = (Command((Word(UNKNOWN),)),)
"""The producer for reading from a file descriptor opened elsewhere."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The commands and findings in a text."""

    commands: tuple[Command, ...] = ()
    """All commands, also nested commands."""
    findings: tuple[str, ...] = ()
    """Reasons to ask that belong to no command, such as a fork bomb or text made at run time."""
    unread: str = ""
    """The reason why commands may be missing; empty if the whole text was read."""


def read(text: str, start: str = "") -> Reading:
    """Parse shell text and return the commands. No part of the text is run.

    Args:
        text: Shell text.
        start: The absolute directory at the start of the text; empty if not known.

    Raises:
        MissingExtraError: The extra `approvals` is not installed; `read_plain_text` works without.
    """
    if len(text) > MAX_CHARACTERS:
        return Reading(unread=f"it is too long to be judged: {len(text):,} characters of at most {MAX_CHARACTERS:,}")
    reader = _Reader(start)
    state = reader.state
    try:
        reader.read_all(text)
    except TooMuchError as error:
        state.unread = str(error)
    except RecursionError:
        state.unread = "it is nested too deep to be judged"
    return Reading(tuple(reader.commands), tuple(dict.fromkeys(state.findings)), state.unread)


@dataclass(slots=True)
class _Line:
    """Redirections after their expansions, and the rest of the line, which tree-sitter puts into them."""

    redirects: list[Redirect] = field(default_factory=list)
    stdin: Flow = ()
    """The producers of the redirected standard input."""
    documents: list[str] = field(default_factory=list)
    behind: list[Node] = field(default_factory=list)
    """The commands behind a here-document: `cat <<EOF | sh`."""
    words: list[Word] = field(default_factory=list)
    """The arguments behind a redirection: `rm >log -rf x`."""


class _Reader:
    """Reads texts in a single state, and collects their commands.

    Args:
        start: The absolute directory at the start of the text; empty if not known.
    """

    def __init__(self, start: str) -> None:
        self.commands: list[Command] = []
        self.state = ReaderState()
        self._budget = Budget()
        self._expander = Expander(self.state, self._budget, self._in_subshell)
        self._start = start
        self._nesting = 0
        self._uncalled: list[Function] = []
        self._calling: set[int] = set()
        """The ids of the function bodies being read, against endless recursion."""
        self._traps: list[str] = []

    # Texts.

    def read_all(self, text: str) -> None:
        """Read a text, then its uncalled functions, as later commands may call them."""
        self.read_text(text, ())
        while self._uncalled:
            self._call(self._uncalled[0], UNKNOWN_VALUE, ())
        self._run_traps(0)

    def read_text(self, text: str, stdin: Flow) -> Flow:
        """Read shell text in the present state, and return the commands that print."""
        self._budget.spend(len(text))
        root, source, is_clear = parse(text, self._budget)
        if not is_clear:
            self.state.unread = UNCLEAR
        with self.state.reading(source):
            return self._sequence(root.children, stdin)

    def _in_subshell(self, script: str | Sequence[Node], stdin: Flow) -> Flow:
        """Read a text or nodes in a subshell, which leaves the variables unchanged."""
        with self._subshell():
            return self.read_text(script, stdin) if isinstance(script, str) else self._sequence(script, stdin)

    @contextmanager
    def _subshell(self) -> Iterator[None]:
        """Read a subshell in the block. Its traps run at the end."""
        traps = len(self._traps)
        with self.state.subshell():
            yield
            self._run_traps(traps)

    def _trap(self, text: str) -> None:
        """Read the text of a `trap` now, if all its variables are set, and again at the end of the shell."""
        self._traps.append(text)
        commands, findings = len(self.commands), len(self.state.findings)
        self.state.has_used_unset = False
        self._in_subshell(text, ())
        if self.state.has_used_unset:
            del self.commands[commands:], self.state.findings[findings:]

    def _run_traps(self, first: int) -> None:
        """Read the trapped texts with the variables at the end of the shell."""
        for text in self._traps[first:]:
            self.read_text(text, ())
        del self._traps[first:]

    # Statements.

    def _sequence(self, nodes: Sequence[Node], stdin: Flow) -> Flow:
        return concatenated([self._visit(node, stdin) for node in nodes if node.is_named])

    def _visit(self, node: Node, stdin: Flow) -> Flow:
        if self._nesting >= _MAX_NESTING:
            raise RecursionError
        handler = _HANDLERS.get(node.type)
        self._nesting += 1
        try:
            return handler(self, node, stdin) if handler else self._sequence(node.children, stdin)
        finally:
            self._nesting -= 1

    def _ignore(self, node: Node, stdin: Flow) -> Flow:
        return ()

    def _compound(self, node: Node, stdin: Flow) -> Flow:
        if node.children and node.children[0].type == "((":
            self._expander.arithmetic(node.children)
            return ()
        return self._sequence(node.children, stdin)

    def _branches(self, branches: Iterable[Callable[[], Flow]], *, may_be_none: bool = True) -> Flow:
        """Read branches, and merge the variables of all of them.

        A part of a branch may run before the next branch, as the condition of `elif`, or a case that ends with `;&`.
        """
        before = self.state.variables
        ends: list[Variables] = [before] if may_be_none else []
        flows = []
        with self.state.branching():
            for branch in branches:
                self.state.merge([before, *ends])
                flows.append(branch())
                ends.append(self.state.variables)
        self.state.merge(ends)
        return either(flows)

    def _list(self, node: Node, stdin: Flow) -> Flow:
        """Read `a && b || c`. Each operand may run after any of the operands before."""
        operands: list[tuple[bool, Node]] = []
        while node.type == "list":
            left, *_, right = (child for child in node.children if child.is_named and child.type != "comment")
            operands.append((any(child.type == "||" for child in node.children), right))
            node = left
        flows = [self._visit(node, stdin)]
        ends = [dict(self.state.variables)]
        with self.state.branching():
            for otherwise, operand in reversed(operands):
                if otherwise:
                    self.state.merge(ends)
                flows.append(self._visit(operand, stdin))
                ends.append(dict(self.state.variables))
        self.state.merge(ends)
        return either([flows[0], either(flows[1:])])

    def _pipeline(self, node: Node, stdin: Flow) -> Flow:
        for child in node.children:
            if child.is_named:
                stdin = self._in_subshell([child], stdin)
        return stdin

    def _if(self, node: Node, stdin: Flow) -> Flow:
        """Read a condition, then the clauses as branches."""
        clauses = [child for child in node.children if child.type in ("elif_clause", "else_clause")]
        own = [child for child in node.children if child not in clauses]
        then = next((at for at, child in enumerate(own) if child.type == "then"), 0)
        condition = self._sequence(own[:then], stdin)
        branches = [partial(self._sequence, own[then:], stdin)]
        branches += [partial(self._sequence, clause.children, stdin) for clause in clauses]
        is_complete = bool(clauses) and clauses[-1].type == "else_clause"
        return either([condition, self._branches(branches, may_be_none=not is_complete)])

    def _case(self, node: Node, stdin: Flow) -> Flow:
        self._expander.words([child for child in node.children if child.is_named and child.type != "case_item"])
        items = [child for child in node.children if child.type == "case_item"]
        return self._branches([partial(self._case_item, item, stdin) for item in items])

    def _case_item(self, node: Node, stdin: Flow) -> Flow:
        patterns = node.children_by_field_name("value")
        self._expander.words(patterns)
        return self._sequence([child for child in node.children if child not in patterns], stdin)

    def _while(self, node: Node, stdin: Flow) -> Flow:
        return self._repeat(lambda: self._sequence(node.children, stdin))

    def _c_style_for(self, node: Node, stdin: Flow) -> Flow:
        body = node.child_by_field_name("body")
        self._expander.arithmetic([child for child in node.children if child != body])
        return self._repeat(lambda: self._visit(body, stdin) if body else ())

    def _for(self, node: Node, stdin: Flow) -> Flow:
        """Read a loop over words. The words are the possible values of its variable."""
        name, body = self.state.text(node.child_by_field_name("variable")), node.child_by_field_name("body")
        if any(child.type == "in" for child in node.children):
            words = self._expander.words(node.children_by_field_name("value"))
        else:
            words = list(self.state.value("@") or UNKNOWN_VALUE)
        values = dict.fromkeys((replace(word, quoted=True),) for word in words)

        alternatives = tuple(values) if 0 < len(values) <= _MAX_TURNS else (UNKNOWN_VALUE,)
        self.state.set(name, *alternatives)

        def turn() -> Flow:
            self.state.set(name, *alternatives)
            return self._visit(body, stdin) if body else ()

        return self._repeat(turn)

    def _repeat(self, once: Callable[[], Flow]) -> Flow:
        """Read a loop until an iteration sets no new value. Values that change in each iteration become UNKNOWN."""
        for turn in range(_MAX_READINGS):
            before = self.state.variables
            self.state.variables = dict(before)
            with self.state.branching():
                flow = once()
            self.state.merge([before, self.state.variables])
            changed = self.state.changed(before)
            if not changed:
                return either([flow, flow])
            if turn:
                self.state.forget(changed)
        raise TooMuchError

    def _function(self, node: Node, stdin: Flow) -> Flow:
        name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        if name and body:
            text = self._expander.word([name]).text
            self.state.functions[text] = function = Function(text, body, self.state.source)
            self._uncalled.append(function)
            self._budget.spend(body.end_byte - body.start_byte)
            if is_fork_bomb(name, body):
                self.state.findings.append("it is a fork bomb: a function that starts itself over and over")
        if redirects := self._redirects(node.children_by_field_name("redirect")).redirects:
            self.commands.append(self._command((), (), redirects))
        return ()

    def _call(self, function: Function, args: Array, stdin: Flow) -> Flow:
        if function in self._uncalled:
            self._uncalled.remove(function)
        if function.body.id in self._calling:
            return ()
        outer = self.state.variables.get("@")
        self.state.set("@", args)
        self._calling.add(function.body.id)
        try:
            with self.state.reading(function.source):
                return self._visit(function.body, stdin)
        finally:
            self._calling.remove(function.body.id)
            self.state.variables.pop("@", None)
            if outer is not None:
                self.state.variables["@"] = outer

    # Redirections.

    def _redirected(self, node: Node, stdin: Flow) -> Flow:
        body = node.child_by_field_name("body")
        if body is None or body.type in _SIMPLE:
            return self._for_each_value(node, stdin, self._redirected_simple)
        line = self._redirects([child for child in node.children if child != body])
        flow = self._visit(body, line.stdin or stdin)
        if line.words:
            self.state.unread = f"{UNSEEN}: words stand behind the redirection of a compound command"
        if line.redirects:
            made = self._command((), (), line.redirects, flow)
            made.stdout_text = made.stdin_text
            self.commands.append(made)
            self.state.record_writes(made)
            if made.stdout_text and any(redirect.is_output for redirect in line.redirects):
                flow = (replace(made, stdout_text=None),)
        return self._after_heredoc(line, flow)

    def _redirected_simple(self, node: Node, stdin: Flow) -> Flow:
        body = node.child_by_field_name("body")
        line = self._redirects([child for child in node.children if child != body])
        stdin = line.stdin or stdin
        flow = self._simple(body, stdin, line) if body else self._run(line.words, (), (), line.redirects, stdin)
        return self._after_heredoc(line, flow)

    def _bare_redirect(self, node: Node, stdin: Flow) -> Flow:
        """Read `$(<file)`."""
        line = self._redirects([node])
        return self._run(line.words, (), (), line.redirects, line.stdin)

    def _after_heredoc(self, line: _Line, flow: Flow) -> Flow:
        """Read the commands behind a here-document: `cat <<EOF | sh`, `cat <<EOF && ls`."""
        for node in line.behind:
            if node.type == "pipeline":
                flow = self._pipeline(node, flow)
            else:
                flow = either([flow, self._branches([partial(self._visit, node, flow)])])
        return flow

    def _redirects(self, nodes: Sequence[Node]) -> _Line:
        """Expand redirections, and the words and commands that tree-sitter puts into them."""
        line = _Line()
        for before, node in zip((None, *nodes), nodes, strict=False):
            if node.type == "file_redirect":
                self._redirect(node, line, here_string=is_here_string(node, before))
            elif node.type == "herestring_redirect":
                named = [child for child in node.children if child.is_named]
                groups = adjoining(self.state.source, named)
                line.documents.append("".join(self._expander.word(group).text for group in groups) + "\n")
            elif node.type == "heredoc_redirect":
                self._document(node, line)
            elif node.type not in ("ERROR", "comment"):  # a part of the word, as in `<<< "x"$(y)`
                self.state.unread = UNCLEAR
        if line.documents:
            line.stdin = (Command(stdout_text="".join(line.documents)),)
        return line

    def _redirect(self, node: Node, line: _Line, *, here_string: bool) -> None:
        """Expand `> file` or `3< file`; also a `<<<` behind another redirection, by the node type of tree-sitter."""
        number = self.state.text(node.child_by_field_name("descriptor"))
        first, *others = list(adjoining(self.state.source, node.children_by_field_name("destination"))) or [[]]
        target = self.state.resolve(self._expander.word(first)) if first else Word("-")
        for group in others:
            line.words += self._expander.words_of(group)
        if here_string:
            line.documents.append(target.text + "\n")
            return
        operator = next((self.state.text(child) for child in node.children if not child.is_named), "")
        if operator == "<":
            line.stdin = target.producers or line.stdin
        elif operator == "<&" and target.text != "-":
            line.stdin = _UNKNOWN_OUTPUT
        line.redirects.append(Redirect(number + operator if number not in ("", "0", "1", "2") else operator, target))

    def _document(self, node: Node, line: _Line) -> None:
        """Add the text of a here-document, and the rest of its first line."""
        start = next((self.state.text(child) for child in node.children if child.type == "heredoc_start"), "")
        body = next((child for child in node.children if child.type == "heredoc_body"), None)
        text = ""
        if body is not None:
            raw = any(sign in start for sign in "'\"\\")
            text = self.state.text(body) if raw else self._expander.document(body)
            if node.children[0].type == "<<-":
                text = re.sub(r"^\t+", "", text, flags=re.MULTILINE)
        if not has_clear_end(self.state.source, node, re.sub(r"['\"\\]", "", start)):
            self.state.unread = f"{UNSEEN}: the end of a here-document is not clear"
        before = node.prev_sibling
        if (
            before and self.state.source[before.end_byte : node.start_byte].strip() == b"-"
        ):  # tree-sitter drops the dash
            line.words.append(Word("-"))
        inner = self._redirects([child for child in node.children if child.type.endswith("_redirect")])
        line.documents.append(text)
        line.redirects += inner.redirects
        line.words += [*self._expander.words(node.children_by_field_name("argument")), *inner.words]
        line.behind += [child for child in node.children if child.type == "pipeline"]
        line.behind += [*node.children_by_field_name("right"), *inner.behind]
        line.stdin = inner.stdin or line.stdin

    # Simple commands.

    def _for_each_value(self, node: Node, stdin: Flow, read: Callable[[Node, Flow], Flow]) -> Flow:
        """Read a simple command, once for each possible value of its variables."""
        alternatives = list(self.state.alternatives(self.state.text(node)))
        if not alternatives:
            return read(node, stdin)

        def with_values(values: Variables) -> Flow:
            self.state.variables.update(values)
            return read(node, stdin)

        return self._branches([partial(with_values, values) for values in alternatives], may_be_none=False)

    def _simple(self, node: Node, stdin: Flow, line: _Line | None = None) -> Flow:
        """Read a simple command, with the redirections and words behind."""
        line, source = line or _Line(), self.state.source
        children = [node] if node.type == "variable_assignment" else node.children
        if node.type == "test_command":
            children = list(test_words(node))
        elif node.start_point.row != node.end_point.row:
            if any(has_newline_between(source, before, child) for before, child in pairwise(children)):
                self.state.unread = UNCLEAR
        elif self.state.value("@") is None and _ARGUMENTS.fullmatch(self.state.text(node)):
            return ()
        return self._one_line(children, stdin, line)

    def _one_line(self, children: Sequence[Node], stdin: Flow, line: _Line) -> Flow:
        """Expand the words of a simple command."""
        words: list[Word] = []
        assignments: list[Assignment] = []
        declared: list[Assignment] = []
        redirects: list[Node] = []
        for group in adjoining(self.state.source, children):
            first = group[0]
            if first.type.endswith("_redirect"):
                redirects += group
            elif first.type == "variable_assignment":
                assigned = self._expander.assignment(first)
                if words:
                    words.append(Word(assigned.text))
                    declared.append(assigned)
                else:
                    assignments.append(assigned)
            elif first.type != "comment":
                words += self._expander.words_of(group)
        if redirects:
            own = self._redirects(redirects)
            words += own.words
            line = replace(line, redirects=own.redirects + line.redirects)
            stdin = own.stdin or stdin
        return self._run([*words, *line.words], assignments, declared, line.redirects, stdin)

    def _run(
        self,
        words: Sequence[Word],
        assignments: Sequence[Assignment],
        declared: Sequence[Assignment],
        redirects: Sequence[Redirect],
        stdin: Flow,
    ) -> Flow:
        """Apply assignments, resolve files, and record a simple command with expanded words."""
        before = dict(self.state.variables) if words and assignments else None
        for assigned in assignments:
            self.state.assign(assigned)
        if not (words or assignments or redirects):
            return ()
        words = [self.state.resolve(word) for word in words]
        words[:1] = [self.state.resolve_program(word) for word in words[:1]]
        words = [
            replace(word, producers=word.producers or _UNKNOWN_OUTPUT) if _DESCRIPTOR.fullmatch(word.text) else word
            for word in words
        ]
        fed = tuple(one for word in words[1:] if word.text.startswith("/dev/fd/") for one in word.producers)
        values = [(one.name, one_word(one.value)) for one in assignments]
        command = self._command(words, values, redirects, (*fed, *stdin) if fed else stdin)
        if fed:
            command.stdin_text = known_output(stdin) if stdin else None
        if command.line == "exec" and stdin:
            self.state.findings.append(f"{UNSEEN}: exec changes what later commands read")
        flow = self._dispatch(command, stdin, declared)
        if before is not None:
            self.state.variables = before
        return flow

    def _command(
        self,
        words: Sequence[Word],
        values: Sequence[tuple[str, Word]] = (),
        redirects: Sequence[Redirect] = (),
        stdin: Flow = (),
    ) -> Command:
        text = known_output(stdin) if stdin else None
        return Command(tuple(words), tuple(values), tuple(redirects), stdin, text, self.state.directory, self._start)

    def _dispatch(self, command: Command, stdin: Flow, declared: Sequence[Assignment] = ()) -> Flow:
        """Record a command, and read the function of the same name."""
        flow = self.record(command, stdin)
        for assigned in declared:
            self.state.assign(assigned)
        name = command.words[0].text if command.words else ""
        if name in self.state.aliases:
            self.state.findings.append(f"{UNSEEN}: an alias that the text makes is used")
        function = self.state.functions.get(name)
        return self._call(function, command.args, stdin) if function is not None else flow

    def record(self, command: Command, stdin: Flow) -> Flow:
        """Record a command and its nested commands, and return the commands that print."""
        self._budget.spend(_COST + sum(len(word.text) for word in command.words) + len(command.producers))
        if self._budget.is_late():
            raise TooMuchError
        command.stdout_text = known_stdout(command)
        command.listed_files = stand_in_files(command)
        self.commands.append(command)
        self.state.apply(command)
        found = nested_commands(command)
        command.nested = found.commands
        self.state.findings += found.reasons
        for guess in found.guesses:
            with self._subshell():
                self.record(guess, stdin)
        if command.name == "trap":
            for script in found.texts:
                self._trap(script)
        elif found.commands or found.texts:
            self._read_nested(command, found, stdin)
        self.state.record_writes(command)
        if command.stdout_text and any(">" in one.operator for one in command.redirects):  # to whichever file
            return (replace(command, stdout_text=None),)
        return (command,)

    def _read_nested(self, command: Command, found: Nested, stdin: Flow) -> None:
        """Record the nested commands of a command, and read its nested texts."""
        same = command.name in _SAME_SHELL
        for one in found.commands:
            with nullcontext() if same else self._subshell():
                self._dispatch(one, stdin) if same else self.record(one, stdin)
        for script in found.texts:
            with nullcontext() if same else self._subshell():
                if found.arguments is not None:
                    self.state.set("0", found.arguments[:1])
                    self.state.set("@", found.arguments[1:])
                elif not same:
                    self.state.forget("@")
                command.nested += self.read_text(script, () if script == command.stdin_text else stdin)


_SIMPLE = frozenset(
    {"command", "declaration_command", "unset_command", "test_command", "variable_assignment", "variable_assignments"}
)
_HANDLERS: dict[str, Callable[[_Reader, Node, Flow], Flow]] = {
    **dict.fromkeys(_SIMPLE, lambda reader, node, stdin: reader._for_each_value(node, stdin, reader._simple)),
    "compound_statement": _Reader._compound,
    "subshell": lambda reader, node, stdin: reader._in_subshell(node.children, stdin),
    "list": _Reader._list,
    "pipeline": _Reader._pipeline,
    "if_statement": _Reader._if,
    "case_statement": _Reader._case,
    "while_statement": _Reader._while,
    "for_statement": _Reader._for,
    "c_style_for_statement": _Reader._c_style_for,
    "function_definition": _Reader._function,
    "redirected_statement": _Reader._redirected,
    "file_redirect": _Reader._bare_redirect,
    "comment": _Reader._ignore,
    "heredoc_start": _Reader._ignore,
}
