"""Configuration of the tests of all rings: groups for pytest-xdist, hypothesis profiles, and common fixtures.

Tests run in several processes. The tests of an `xdist_group` run in turn in a single process: tests with a costly
shared fixture, and tests that would disturb each other.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import itertools
import os
import secrets
import signal
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

if TYPE_CHECKING:
    from environments.conformance import Subject

# In CI the same examples each time, so that a failure belongs to the change; elsewhere new ones, to find more faults.
hypothesis.settings.register_profile("on a loaded machine", deadline=None, derandomize=bool(os.environ.get("CI")))
hypothesis.settings.load_profile("on a loaded machine")

# A background job of a script starts with SIGINT ignored, a job of nohup with SIGHUP ignored. Children inherit this.
for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, handler)


# Tests of memory need freed memory to go back to the kernel. glibc raises its threshold for this after large
# allocations, unless the threshold is set, see mallopt(3).
M_MMAP_THRESHOLD = -3
with contextlib.suppress(AttributeError):  # other C libraries have no mallopt
    ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, 128 * 1024)


PARTS = 3
"""Processes that check a backend's contract at once. Each starts its own target, such as a container."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Group the tests marked `alone` with the same word, and the tests of a file with a module's fixture.

    The checks of the contract are dealt out to `PARTS` groups for each backend. The slowest tests, `moments`, come
    first.
    """
    items.sort(key=lambda item: "moments" not in item.path.parts)
    turns: defaultdict[str, itertools.cycle[int]] = defaultdict(lambda: itertools.cycle(range(PARTS)))
    for item in items:
        if item.get_closest_marker("xdist_group"):
            continue
        if getattr(item, "callspec", None) and item.callspec.params.keys() >= {"check", "subject"}:
            backend = item.callspec.params["subject"].__name__
            item.add_marker(pytest.mark.xdist_group(f"{backend} {next(turns[backend])}"))
        elif marker := item.get_closest_marker("alone"):
            item.add_marker(pytest.mark.xdist_group(f"alone with {marker.args[0]}"))
        elif isinstance(item, pytest.Function) and _shares_with_its_file(item):
            item.add_marker(pytest.mark.xdist_group(item.path.relative_to(item.config.rootpath).as_posix()))


def _shares_with_its_file(item: pytest.Function) -> bool:
    fixtures = item._fixtureinfo.name2fixturedefs
    return any(fixtures[name][-1].scope == "module" for name in item.fixturenames if name in fixtures)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Check that pytest-xdist handles groups: it appends a group to the test's id.

    Freeze the garbage collector's objects: all imported modules stay, and need no further collections.
    """
    gc.freeze()
    if getattr(session.config.option, "loadgroup", False):
        for item in session.items:
            if item.get_closest_marker("xdist_group") and "@" not in item.nodeid:
                raise pytest.UsageError("this pytest-xdist ignores the groups of tests; see pyproject.toml")


@pytest.fixture
def nap() -> str:
    """A long and unique number of seconds to sleep, by which a test finds its processes."""
    return f"9{secrets.randbelow(10**6):06}.{secrets.randbelow(10**6):06}"


@pytest.fixture
def without_collector() -> Iterator[None]:
    """Disable the garbage collector for a test at Python's recursion limit: another test's finalizer would fail."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.fixture
def configure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], None]:
    """Write config.yaml, in the test's own settings directory."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HERMES_HOME", str(home))
    return lambda text: (home / "config.yaml").write_text(text) and None


@pytest.fixture(scope="module")
def subject(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Subject]:
    """A backend from `targets.backends` for checks of the contract, the test's parameter."""
    with request.param(tmp_path_factory.mktemp("session")) as made:
        yield made
        made.close()
