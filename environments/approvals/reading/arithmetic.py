"""Where an arithmetic expression ends, if it is one."""

from __future__ import annotations

import re

from environments.approvals.reading.budget import Budget

_PARENTHESIS = re.compile(r"[()]|\\.|'[^']*'|\"(?:[^\"\\]|\\.)*\"|`(?:[^`\\]|\\.)*`", re.DOTALL)
"""Parentheses, and what may hold some that do not count."""


def end_of_arithmetic(text: str, start: int, budget: Budget) -> int | None:
    """Return where the `))` is that ends an expression.

    Args:
        text: Shell text.
        start: The place behind its `((`.
        budget: What looking for it is spent from.

    Returns:
        The place; None where the parentheses do not close together, so that they are subshells: `((a); b)`.
    """
    depth = 0
    for found in _PARENTHESIS.finditer(text, start):
        if found[0] == "(":
            depth += 1
        elif found[0] != ")":
            continue
        elif depth:
            depth -= 1
        else:
            budget.spend(found.start() - start)
            return found.start() if text.startswith("))", found.start()) else None
    budget.spend(len(text) - start)
    return None
