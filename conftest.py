"""Settings of the tests of all rings: groups for parallel runs, Hypothesis's examples, and common fixtures.

Tests run in several processes. Tests of an `xdist_group` run one after the other in one process: they share a costly
fixture, or would disturb each other.
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

# CI runs the same cases each time, so that a failure comes from the change. Elsewhere new cases find more.
hypothesis.settings.register_profile("on a loaded machine", deadline=None, derandomize=bool(os.environ.get("CI")))
hypothesis.settings.load_profile("on a loaded machine")

# A script's background job ignores SIGINT, one of nohup SIGHUP, and so do all their children.
for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, handler)


# For tests that measure memory. After a large allocation, the C library keeps freed memory; with a fixed threshold it
# returns the memory to the kernel, see mallopt(3).
M_MMAP_THRESHOLD = -3
with contextlib.suppress(AttributeError):  # not every C library has or needs it
    ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, 128 * 1024)


PARTS = 3
"""Parallel processes for the contract of a backend. Each starts its own target, such as a container."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Group the tests marked `alone` with the same word, and the tests of a file with fixtures of scope `module`.

    The checks of the contract are split into `PARTS` groups for each backend. Tests with the longest waits come first.
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
    """Check that pytest-xdist has applied the groups: it appends them to the name of a test.

    Imported modules stay. `gc.freeze` keeps the garbage collector from visiting them again.
    """
    gc.freeze()
    if getattr(session.config.option, "loadgroup", False):
        for item in session.items:
            if item.get_closest_marker("xdist_group") and "@" not in item.nodeid:
                raise pytest.UsageError("this pytest-xdist ignores the groups of tests; see pyproject.toml")


@pytest.fixture
def nap() -> str:
    """Seconds for a `sleep`: long, and different in each test, to find the test's own processes."""
    return f"9{secrets.randbelow(10**6):06}.{secrets.randbelow(10**6):06}"


@pytest.fixture
def without_collector() -> Iterator[None]:
    """Disables the garbage collector in a test with deep recursion, where a finalizer has no stack left."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.fixture
def configure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], None]:
    """Writes config.yaml into a settings directory of the test."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HERMES_HOME", str(home))
    return lambda text: (home / "config.yaml").write_text(text) and None


@pytest.fixture(scope="module")
def subject(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Subject]:
    """The backend of a check of the contract: the test's parameter, a function of `targets.backends`."""
    with request.param(tmp_path_factory.mktemp("session")) as made:
        yield made
        made.close()
