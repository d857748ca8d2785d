"""Which checks of the contract run one after the other."""

from __future__ import annotations

import itertools
from collections import defaultdict

import pytest

PARTS = 2
"""Processes that may check one backend side by side. Each starts what that needs: a server, a shared environment."""


@pytest.hookimpl(tryfirst=True)  # and before that of the folders above
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Deal the checks of each backend out to a few groups."""
    turns: defaultdict[str, itertools.cycle[int]] = defaultdict(lambda: itertools.cycle(range(PARTS)))
    for item in items:
        parameters = getattr(item, "callspec", None)
        if parameters and "subject" in parameters.params:
            backend = parameters.params["subject"].__name__
            item.add_marker(pytest.mark.xdist_group(f"{backend} {next(turns[backend])}"))
