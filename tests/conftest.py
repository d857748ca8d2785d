"""What holds for all tests: which of them may run side by side.

Tests run in several processes, each of which takes the next test there is. Those of one `xdist_group` run one after the
other in one process: tests that share something costly, and those that would be in each other's way.
"""

from __future__ import annotations

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests marked `alone` with the same word into one group."""
    for item in items:
        if marker := item.get_closest_marker("alone"):
            item.add_marker(pytest.mark.xdist_group(f"alone with {marker.args[0]}"))
