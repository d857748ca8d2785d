"""What holds for all tests: which of them may run side by side, and that none is in a hurry.

Tests run in several processes, each of which takes the next test there is. Those of one `xdist_group` run one after the
other in one process: tests that share something costly, and those that would be in each other's way.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import secrets
import signal
from collections.abc import Callable
from pathlib import Path

import hypothesis
import pytest

# In CI always the same cases, so that a change is judged by what it changes; elsewhere new ones, to find more.
hypothesis.settings.register_profile("on a loaded machine", deadline=None, derandomize=bool(os.environ.get("CI")))
hypothesis.settings.load_profile("on a loaded machine")

# A job that a script has put into the background is started with control-C ignored, one of nohup's with SIGHUP, and all
# their children are.
for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, handler)


# Where a test measures memory, what is no longer held is to be gone. The C library keeps what is freed, the larger the
# more, once something large has been; with a threshold that is set it gives that back, see mallopt(3).
M_MMAP_THRESHOLD = -3
with contextlib.suppress(AttributeError):  # not every C library has it, nor its habit
    ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, 128 * 1024)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Group the tests marked `alone` with the same word, and those of a file that share what is made once for it."""
    for item in items:
        if item.get_closest_marker("xdist_group"):
            continue
        if marker := item.get_closest_marker("alone"):
            item.add_marker(pytest.mark.xdist_group(f"alone with {marker.args[0]}"))
        elif isinstance(item, pytest.Function) and _shares_with_its_file(item):
            item.add_marker(pytest.mark.xdist_group(item.path.relative_to(item.config.rootpath).as_posix()))


def _shares_with_its_file(item: pytest.Function) -> bool:
    fixtures = item._fixtureinfo.name2fixturedefs
    return any(fixtures[name][-1].scope == "module" for name in item.fixturenames if name in fixtures)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Make sure that groups are what pytest-xdist has understood: it writes them behind the name of a test."""
    if getattr(session.config.option, "loadgroup", False):
        for item in session.items:
            if item.get_closest_marker("xdist_group") and "@" not in item.nodeid:
                raise pytest.UsageError("this pytest-xdist passes over the groups of tests; see pyproject.toml")


@pytest.fixture
def nap() -> str:
    """Seconds to sleep for: long, and such as no other test sleeps for, so that its processes can be told apart."""
    return f"9{secrets.randbelow(10**6):06}.{secrets.randbelow(10**6):06}"


@pytest.fixture
def configure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], None]:
    """Writes config.yaml, in a settings directory of the test's own."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HERMES_HOME", str(home))
    return lambda text: (home / "config.yaml").write_text(text) and None
