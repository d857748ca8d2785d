"""Every quoted message in docs/troubleshooting.md is in the code."""

from __future__ import annotations

import ast
import re

from docs.documents import ROOT
from docs.words import files


def text_of(node: ast.AST) -> str:
    """Return a string of the code, with `…` for each placeholder."""
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(part) for part in node.values)
    return str(node.value) if isinstance(node, ast.Constant) else "…"


def test_each_quoted_message_is_in_the_code() -> None:
    page = (ROOT / "docs/troubleshooting.md").read_text().partition("## Errors")[0]
    symptoms = [row.split(" | ")[-2] for row in page.splitlines() if row.count(" | ")]
    quoted = [message for symptom in symptoms for message in re.findall(r"`([^`]* [^`]*)`", symptom)]
    assert len(quoted) > 12
    texts = [
        text_of(node)
        for file in files()
        for node in ast.walk(file.tree)
        if isinstance(node, ast.Constant | ast.JoinedStr)
    ]
    whole = "\n".join(texts)
    assert [message for message in quoted if not all(part.strip() in whole for part in message.split("…"))] == []
