"""docs/troubleshooting.md has every error message that the code can raise, and none that it no longer does."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from environments.errors import CLEANED_UP

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/troubleshooting.md"
ROOMS = ("environments", "rpc", "hermes_tools", "code_execution", "hermes_env")
HOLE = "…"
"""What stands in the page for whatever a message has filled in; at the end, for its rest."""

NEVER_SEEN = {
    "AttributeError": "Python's own words for a name that a module does not have",
    "BrokenChannelError": "a target's breach of frames, which ends its network and is logged",
    "BrokenPipeError": "how a stream of ours says that it ended, which becomes a loss",
    "ConnectionResetError": "the end of a program's connection, which the program sees as such",
    "ConversionError": "the reason for a PageError",
    "DaytonaTimeoutError": "the client's own, raised in its place",
    "LocalProtocolError": "httpx's own, raised in its place",
    "OSError": "an error number, in the system's words",
    "NotADirectoryError": "an error number, in the system's words",
    "IsADirectoryError": "an error number, in the system's words",
    "PermissionError": "an error number, in the system's words",
    "ReadError": "an archive that cannot be read, told by whoever reads it",
    "TooMuchError": "has a command taken for one that cannot be judged",
}
"""The errors that nobody outside sees by these words, and why."""
SAID_BY = ("Deny", "error_answer")
"""What else takes a message: a denial, and what a tool answers."""
REASONS = (
    "environments/approvals/asking.py",
    "environments/docker/engine.py",
    "environments/docker/client.py",
    "environments/ssh/login.py",
)
"""Files whose sentences are the rest of a message that is put together elsewhere."""
RAISED_LATER = ("rpc/stub_runtime.py",)
"""Files that keep a message until it is raised elsewhere."""


def template(node: ast.expr) -> str | None:
    """Return the text of a message, with a hole for each thing that it fills in; None if it is made elsewhere."""
    if isinstance(node, ast.Name) and node.id == "CLEANED_UP":
        return CLEANED_UP
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else HOLE for part in node.values)
    return None


def words(text: str) -> int:
    """Return how many words a message has of its own; one of fewer than two is put together of others."""
    return len(re.findall(r"\w+", text.replace(HOLE, " ")))


def called(node: ast.Call) -> str:
    return node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")


def raised_in(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.args and called(node).endswith(("Error", *SAID_BY)):
            text = template(node.args[0])
            if text and called(node) not in NEVER_SEEN:
                yield text


def returned_in(tree: ast.AST) -> Iterator[str]:
    """Sentences that functions return."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Return) and node.value and (text := template(node.value)) and " " in text:
            yield text


def assigned_in(tree: ast.AST) -> Iterator[str]:
    """Sentences that are kept as a `problem`, to be raised later."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and any(getattr(target, "id", "") == "problem" for target in node.targets):
            yield template(node.value) or ""


def messages() -> dict[str, str]:
    """Return all messages, each with a file that has it."""
    found: dict[str, str] = {}
    for path in sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py")):
        name = str(path.relative_to(ROOT))
        if name.startswith(("environments/conformance/", "hermes_env/plugs/")):
            continue
        tree = ast.parse(path.read_text())
        texts = [*raised_in(tree), *(returned_in(tree) if name in REASONS else ())]
        texts += assigned_in(tree) if name in RAISED_LATER else ()
        found.update({text: name for text in texts if words(text) >= 2})
    return found


def entries() -> dict[str, re.Pattern[str]]:
    """Return what the page has an entry for: the code that an item of a list begins with, and what that stands for."""
    items = re.findall(r"^- ((?:`[^`\n]+`|``.+?``)(?:, (?:`[^`\n]+`|``.+?``))*): ", PAGE.read_text(), re.MULTILINE)
    texts = [single or double.strip() for item in items for double, single in re.findall(r"``(.+?)``|`([^`]+)`", item)]
    return {text: re.compile(".*".join(map(re.escape, text.split(HOLE))), re.DOTALL) for text in texts}


def test_the_page_has_every_message_and_no_other() -> None:
    known, found = entries(), messages()
    assert [f"{found[text]}: {text}" for text in found if not any(it.fullmatch(text) for it in known.values())] == []
    assert [entry for entry, pattern in known.items() if not any(map(pattern.fullmatch, found))] == []


def test_an_entry_says_more_than_a_hole() -> None:
    assert [entry for entry in entries() if words(entry) < 2] == []
