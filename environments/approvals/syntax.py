"""The tree-sitter parser for shell text, and corrections where its syntax tree differs from the shell's reading."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.util import find_spec
from itertools import zip_longest
from typing import TYPE_CHECKING

from environments.approvals.budget import Budget, TooMuchError

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

_LIBRARIES = ("tree_sitter", "tree_sitter_bash")
_MAX_PIPES = 4000
_SHORT = 2000
"""Any text of so many bytes is parsed quickly."""
_NOT_ASCII = re.compile(rb"[^\x00-\x7f]")
"""Bytes that the shell takes as parts of words. tree-sitter-bash takes some such characters for blanks, and crashes the
process at others: `{\\U0010ffff` is looked up behind the end of a table."""
_LONE_SLASH = re.compile(rb"(\s)/(?=\s+\]\])")
"""`[[ -d / ]]`. tree-sitter takes the slash for a division."""
_TESTS = frozenset({"binary_expression", "unary_expression", "parenthesized_expression", "postfix_expression"})


def has_parser() -> bool:
    """Return True if the libraries of the extra `approvals` are installed. The check imports no library."""
    return _missing() is None


def require_parser(what: str) -> None:
    """Check that the libraries of the extra `approvals` are installed.

    Args:
        what: The feature, for the message.

    Raises:
        MissingExtraError: A library is not installed.
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


def parse(text: str, budget: Budget) -> tuple[Node, bytes, bool]:
    """Return the syntax tree of a text, the bytes to which its positions refer, and True if the tree has no error.

    Raises:
        TooMuchError: Parsing takes too long. The time can grow with the square of the length after errors.
    """
    source = text.replace("\0", "").encode(errors="replace")
    root = _parsed(source, budget)
    if root.has_error and _LONE_SLASH.search(source):
        source = _LONE_SLASH.sub(rb'\1"/"', source)
        root = _parsed(source, budget)
    return root, source, not (root.has_error and _has_error(root))


def _parsed(source: bytes, budget: Budget) -> Node:
    if source.count(b"|") > _MAX_PIPES or budget.is_late():
        raise TooMuchError
    source = _NOT_ASCII.sub(b".", source)
    parser = _parser()
    if len(source) > _SHORT:
        try:
            parser.parse(lambda offset, _: source[offset:], progress_callback=budget.is_late)
        except ValueError:  # interrupted
            parser.reset()
            raise TooMuchError from None
    return parser.parse(source).root_node


def _text(node: Node | None) -> bytes:
    return (node.text or b"") if node else b""


def adjoining(source: bytes, nodes: Sequence[Node]) -> Iterator[list[Node]]:
    """Return nodes in groups without blanks inside: each group is a word, which tree-sitter may have split."""
    group: list[Node] = []
    for node in nodes:
        between = source[group[-1].end_byte : node.start_byte] if group else b""
        if group and (between.replace(b"\\\n", b"") or node.type.endswith(("_redirect", "_assignment"))):
            yield group
            group = []
        group.append(node)
    if group:
        yield group


def test_words(node: Node) -> Iterator[Node]:
    """Return the words of `[[ ... ]]`."""
    nodes = list(reversed(node.children))
    while nodes:
        child = nodes.pop()
        if child.type in _TESTS:
            nodes += reversed(child.children)
        else:
            yield child


def has_newline_between(source: bytes, before: Node, node: Node) -> bool:
    """Return True if an unquoted newline is between two words, or at the start of the second.

    tree-sitter takes two lines for a single command where the second begins with a backslash.
    """
    between = source[before.end_byte : node.start_byte + (node.type in ("word", "concatenation"))]
    return b"\n" in between.replace(b"\\\n", b"")


def is_here_string(node: Node, before: Node | None) -> bool:
    """Return True for a `<<<` parsed as an error and a redirection, as tree-sitter does behind another redirection."""
    if any(child.is_error and _text(child) == b"<<" for child in node.children):
        return True
    return before is not None and before.is_error and _text(before) == b"<<" and before.end_byte == node.start_byte


def has_clear_end(source: bytes, node: Node, name: str) -> bool:
    """Return True if tree-sitter found the right end of a here-document, not an end too late or too soon."""
    end = next((child.end_byte for child in node.children if child.type == "heredoc_end"), None)
    if end is None:
        return True
    lines = source[node.start_byte : end].decode(errors="replace").split("\n")
    if node.children[0].type == "<<-":
        lines = [line.lstrip("\t") for line in lines]
    return lines[-1] == name and name not in lines[1:-1] and source[end : end + 1] in (b"", b"\n")


def is_fork_bomb(name: Node, body: Node) -> bool:
    """Return True for a fork bomb: a function with a call of itself in a pipeline or in the background."""
    nodes = [(body, False)]
    while nodes:
        node, apart = nodes.pop()
        if node.type == "command_name" and apart and _text(node) == _text(name):
            return True
        for child, behind in zip_longest(node.children, node.children[1:]):
            background = behind is not None and behind.type == "&"
            nodes.append((child, apart or background or child.type == "pipeline"))
    return False


def _has_error(root: Node) -> bool:
    """Return True if a tree has an error beyond the benign ones."""
    nodes = [root]
    while nodes:
        node = nodes.pop()
        if node.is_missing or (node.is_error and not _is_benign(node)):
            return True
        nodes += [child for child in node.children if child.has_error]
    return False


def _is_benign(node: Node) -> bool:
    """Return True for an error of tree-sitter in a correctly read form."""
    behind = node.next_sibling
    adjoins = behind is not None and behind.start_byte == node.end_byte
    return _text(node) == b"<<" and adjoins and _text(behind).startswith(b"<")
