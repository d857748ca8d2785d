"""Expansion of words: quotes, parameters, command and process substitution, here-documents and arithmetic."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from environments.approvals.budget import MAX_VALUE, Budget
from environments.approvals.command import UNKNOWN, UNSEEN, Command, Word
from environments.approvals.outputs import Flow, known_output
from environments.approvals.paths import is_secret_name
from environments.approvals.quoting import (
    Piece,
    ansi_c,
    as_one,
    expand_braces,
    in_quotes,
    plain,
    split_into_words,
    unescaped,
)
from environments.approvals.state import KNOWN, UNKNOWN_VALUE, Assignment, ReaderState
from environments.approvals.syntax import adjoining

if TYPE_CHECKING:
    from tree_sitter import Node

UNCLEAR = f"{UNSEEN}: its syntax is not clear enough to be judged"
_NAME = re.compile(r"[A-Za-z_]\w*")
_PLAIN = re.compile(rb"[\w./:@%+,-]+")
"""A word without expansions."""
_EXPANSION = re.compile(
    rb"\s*\$\{([!#]?)([A-Za-z_]\w*|[0-9]+|[@*#?$!-])(?:\[((?:[^\[\]]|\[[^\]]*\])*)\])?(.*)\}", re.DOTALL
)
_OPERATOR = re.compile(r":?[-=?+]|[#%/^,@:]")
_BACKTICKS = re.compile(rb"(?<!\\)`((?:[^`\\]|\\.)*)`", re.DOTALL)
_BEGINS_EXPANSION = re.compile(rb"[\w{(@*#?!-]|\\\n[\w{(@*#?!-]")
_ENDS_QUOTE = re.compile(r"""[$`"}\\]""")
_EVALUATES = re.compile(r"\$\(|`")
_SUBSTITUTES = re.compile(r"`|[<>]\(|\$[\w{(@*#?!-]")


class Expander:
    """Expands words in a state.

    Args:
        state: The variables, and the text being read.
        budget: The rest of the time and characters.
        run: Reads a shell text or nodes in a subshell, with the producers of the standard input; returns the commands
            that print.
    """

    def __init__(self, state: ReaderState, budget: Budget, run: Callable[[str | Sequence[Node], Flow], Flow]) -> None:
        self._state = state
        self._budget = budget
        self._run = run
        self._expanding: dict[str, Callable[[Node, bool], list[Piece]]] = {
            "string": self._string,
            "simple_expansion": self._simple_expansion,
            "expansion": self._expansion,
            "command_substitution": self._substitution,
            "process_substitution": self._process,
            "arithmetic_expansion": self._computed,
            "``": lambda node, quoted: [],
            "$": self._dollar,
        }

    # Words.

    def words(self, nodes: Sequence[Node]) -> list[Word]:
        """Expand words."""
        return [word for group in adjoining(self._state.source, nodes) for word in self.words_of(group)]

    def word(self, nodes: Sequence[Node]) -> Word:
        """Expand nodes to a single word without splitting."""
        return as_one([piece for node in nodes for piece in self._pieces(node)])

    def words_of(self, group: Sequence[Node]) -> list[Word]:
        """Expand adjoining nodes, which make a single word before splitting."""
        source = self._state.raw(group[0])
        self._budget.spend(len(source))
        if group[-1].type == "number" and self._state.source.startswith(b"<", group[-1].end_byte):  # `0<<<text`
            self._state.unread = UNCLEAR
        if len(group) == 1 and _PLAIN.fullmatch(source):
            return [Word(source.decode())]
        pieces = [piece for one in group for piece in self._pieces(one)]
        words = [word for one in expand_braces(pieces) for word in split_into_words(one)]
        self._budget.spend(sum(len(word.text) for word in words))
        return words

    def assignment(self, node: Node) -> Assignment:
        """Expand `name=value`."""
        left, right = node.child_by_field_name("name"), node.child_by_field_name("value")
        name, is_element = self._state.text(left), False
        if left and left.type == "subscript":
            inside = left.child_by_field_name("index")
            index = self._arithmetic_text([inside]) if inside else UNKNOWN
            name, is_element = self._state.text(left.child_by_field_name("name")), index != "0"
        is_append = any(child.type == "+=" for child in node.children)
        if right is None or right.type != "array":
            return Assignment(name, (self.word([right] if right else []),), is_element, is_append)
        groups = list(adjoining(self._state.source, right.children[1:-1]))
        value = tuple(word for group in groups for word in self.words_of(group))
        named = any(self._state.raw(group[0]).startswith(b"[") for group in groups)
        return Assignment(name, value, named, is_append, is_array=True)

    def document(self, node: Node) -> str:
        """Return the text of a here-document with an unquoted end. tree-sitter does not parse backticks in the text."""
        scripts = [found[1].decode(errors="replace") for found in _BACKTICKS.finditer(self._state.raw(node))]
        for script in scripts:
            self._run(re.sub(r"\\([`\\$])", r"\1", script), ())
        if not node.child_count and _SUBSTITUTES.search(self._state.text(node)):  # tree-sitter has taken them for text
            self._state.unread = UNCLEAR
        at, texts = node.start_byte, []
        for child in node.children:
            if child.is_named and child.type != "heredoc_content":
                texts.append(in_quotes(self._between(at, child.start_byte), "$`\\\n"))
                texts += [piece.text for piece in self._pieces(child, quoted=True)]
                at = child.end_byte
        texts.append(in_quotes(self._between(at, node.end_byte), "$`\\\n"))
        return UNKNOWN if scripts else "".join(texts)

    # Pieces.

    def _between(self, start: int, end: int) -> str:
        return self._state.source[start:end].decode(errors="replace")

    def _pieces(self, node: Node, *, quoted: bool = False) -> list[Piece]:
        """Return the pieces of a word or a part of a word."""
        self._budget.spend(1)
        if expand := self._expanding.get(node.type):
            return expand(node, quoted)
        text = self._state.text(node)
        if not quoted and node.type in ("raw_string", "ansi_c_string"):
            return [Piece(text[1:-1] if text[:1] == "'" else ansi_c(text[2:-1]).partition("\0")[0])]
        if node.type != "brace_expression" and node.child_count:
            return self._span(node, node.start_byte, node.end_byte, quoted=quoted)
        return [Piece(text)] if quoted else unescaped(text)

    def _span(self, node: Node, start: int, end: int, *, quoted: bool) -> list[Piece]:
        """Return the pieces of a part of a node: the children, and the text between them."""
        pieces: list[Piece] = []
        at = start
        for child in node.children:
            if child.start_byte >= at and child.end_byte <= end:
                pieces += plain(self._between(at, child.start_byte), quoted=quoted)
                pieces += self._pieces(child, quoted=quoted)
                at = child.end_byte
        return pieces + plain(self._between(at, end), quoted=quoted)

    def _string(self, node: Node, quoted: bool) -> list[Piece]:
        at, end = node.start_byte + 1, node.end_byte - 1
        pieces: list[Piece] = []
        for child in node.children:
            if child.type == "$":
                self._check_dollar(child)
            if not child.is_named or child.type == "string_content":
                continue
            text = self._state.raw(child)
            blanks = len(text) - len(text.lstrip())  # tree-sitter puts them into the next node
            pieces.append(Piece(in_quotes(self._between(at, child.start_byte + blanks))))
            pieces += self._pieces(child, quoted=True)
            at = child.end_byte
        pieces.append(Piece(in_quotes(self._between(at, end))))
        return pieces

    def _dollar(self, node: Node, quoted: bool) -> list[Piece]:
        if not quoted and node.next_sibling and node.next_sibling.type == "string":
            return []  # $"text"
        self._check_dollar(node)
        return [Piece("$", quoted)]

    def _check_dollar(self, node: Node) -> None:
        """Ask about a `$` parsed as a plain character in front of an expansion, as tree-sitter does with `a$IFS/`."""
        if _BEGINS_EXPANSION.match(self._state.source, node.end_byte):
            self._state.unread = UNCLEAR

    # Substitutions.

    def _substitution(self, node: Node, quoted: bool) -> list[Piece]:
        text = self._state.text(node).strip()
        if text.startswith("`") and ("``" in text or "\\" in text):  # tree-sitter parses them wrongly
            self._state.unread = UNCLEAR
        flow = self._run(node.children, ())
        output = known_output(flow)
        output = UNKNOWN if output is None or len(output) > MAX_VALUE else output.rstrip("\n")
        return [self._loose(Piece(output, quoted, expanded=True, producers=flow))]

    def _process(self, node: Node, quoted: bool) -> list[Piece]:
        reads = self._state.text(node).startswith(">")
        flow = self._run(node.children, (Command((Word(UNKNOWN),)),) if reads else ())
        return [Piece("/dev/fd/63", producers=(not reads and flow) or (Command(stdout_text=""),))]

    def _computed(self, node: Node, quoted: bool) -> list[Piece]:
        self.arithmetic(node.children)
        return [Piece("1", quoted)]

    def arithmetic(self, nodes: Sequence[Node]) -> None:
        """Read the substitutions in an arithmetic expression, and apply the assignments."""
        left_nodes = list(nodes)
        while left_nodes:
            one = left_nodes.pop()
            if one.type in self._expanding:
                self._arithmetic_text([one])
                continue
            if one.type in ("variable_assignment", "binary_expression"):
                left = one.child_by_field_name("name") or one.child_by_field_name("left")
                if left and _NAME.fullmatch(self._state.text(left)) and "=" in self._state.text(one).replace("==", ""):
                    self._state.set(self._state.text(left), (Word("1"),))
            left_nodes += one.children

    def _arithmetic_text(self, nodes: Sequence[Node]) -> str:
        """Expand arithmetic text, and ask about a substitution in a value, which the shell would evaluate."""
        text = self.word(nodes).text
        self._evaluate(text)
        return text

    def _evaluate(self, text: str) -> None:
        if _EVALUATES.search(text):
            self._state.findings.append(f"{UNSEEN}: a value with a substitution is evaluated")

    # Parameters.

    def _simple_expansion(self, node: Node, quoted: bool) -> list[Piece]:
        text = self._state.text(node)
        name = (text.lstrip() if quoted else text)[1:]  # in quotes, the blanks before it stand in the node
        if not quoted and name[:1].isspace():  # a lone `$`, with the word behind it as its name
            self._state.unread = UNCLEAR
        return [Piece(text)] if name[:1].isspace() else self._value(name, "", quoted=quoted)

    def _expansion(self, node: Node, quoted: bool) -> list[Piece]:
        found = _EXPANSION.fullmatch(self._state.raw(node))
        unknown = [Piece(UNKNOWN, quoted, expanded=True)]
        if not found:
            self._span(node, node.start_byte + 2, node.end_byte - 1, quoted=True)
            return unknown
        prefix, name, rest = (found[group].decode(errors="replace") for group in (1, 2, 4))
        index, start = "", node.start_byte
        if found[3] is not None:
            pieces = self._span(node, start + found.start(3), start + found.end(3), quoted=False)
            index = "".join(piece.text for piece in pieces)
            self._evaluate(index)
        if prefix == "#":
            return [Piece("1", quoted)]
        operator = (_OPERATOR.match(rest) or [""])[0]
        operand = self._operand(node, start + found.start(4) + len(operator), quoted=quoted)
        value = self._value(name, index, quoted=quoted)
        if prefix == "!":
            return unknown
        return self._operated(name, value, rest, operand, quoted=quoted) if operator else value

    def _operated(self, name: str, value: list[Piece], rest: str, operand: list[Piece], *, quoted: bool) -> list[Piece]:
        """Apply an operator such as `:-` to the value of a variable; UNKNOWN for rare operators."""
        text, given = ("".join(piece.text for piece in pieces) for pieces in (value, operand))
        unknown = [Piece(UNKNOWN, quoted, expanded=True)]
        if rest == "@P":  # expanded as a prompt
            self._evaluate(text)
        sign = rest.lstrip(":")[:1]
        if not sign or sign not in "-=?":
            return unknown
        if text not in ("", UNKNOWN):
            return value
        if sign == "=":
            self._state.set(name, (Word(given or UNKNOWN),))
        return operand if given else unknown

    def _operand(self, node: Node, start: int, *, quoted: bool) -> list[Piece]:
        """Return the word of `${x:-word}`. tree-sitter takes some substitutions in the word for text."""
        leaves = [child for child in node.children if child.start_byte >= start]
        if quoted and any(
            child.type == "raw_string" and _ENDS_QUOTE.search(self._state.text(child)) for child in leaves
        ):
            self._state.unread = f"{UNSEEN}: shells differ in what a quote means within a quoted expansion"
        parts = [part for child in leaves for part in (child.children if child.type == "concatenation" else [child])]
        plain_leaves = [part for part in parts if not part.child_count and part.type != "raw_string"]
        if any(_SUBSTITUTES.search(self._state.text(child)) for child in plain_leaves):
            self._state.unread = UNCLEAR
        pieces = self._span(node, start, node.end_byte - 1, quoted=quoted)
        return [replace(piece, expanded=True) if not piece.quoted else piece for piece in pieces]

    def _value(self, name: str, index: str, *, quoted: bool) -> list[Piece]:
        """Return the value of a variable, or all elements of an array. A chosen element is UNKNOWN."""
        if name in ("@", "*"):
            name, index = "@", name
        items = self._state.value("@" if name.isdigit() and name != "0" else name)
        if items is None:
            self._state.has_used_unset |= name not in KNOWN
            told = (Command((Word("printenv"), Word(name))),) if is_secret_name(name) else ()
            return [Piece(KNOWN.get(name, UNKNOWN), quoted and name != "@", expanded=True, producers=told)]
        if name.isdigit() and name != "0":
            position = int(name[:6])
            known = all(word.quoted for word in items)
            items = (*items, *[Word("")] * position)[position - 1 : position] if known else UNKNOWN_VALUE
        elif index not in ("@", "*") and (len(items) != 1 or index not in ("", "0")):
            items = (Word(UNKNOWN),)
        ends = index == "@" or not quoted
        last = len(items) - 1
        return [
            self._loose(Piece(one.text, quoted and one.quoted, True, one.glob, ends and at < last, one.producers))
            for at, one in enumerate(items)
        ]

    def _loose(self, piece: Piece) -> Piece:
        """Return a piece; UNKNOWN if the text sets IFS, so that other characters than blanks may split the piece."""
        splits = not piece.quoted and "IFS" in self._state.variables
        return replace(piece, text=UNKNOWN) if splits and piece.text else piece
