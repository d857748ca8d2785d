"""What holds for the tests of all rings: which of them run side by side, their examples, and common fixtures.

Tests run in several processes, each of which takes the next test there is. Those of one `xdist_group` run one after the
other in one process: tests that share something costly, and those that would be in each other's way.
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


PARTS = 3
"""Processes that check the contract of one backend side by side. Each starts what that needs, such as a container."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Group the tests marked `alone` with the same word, and those of a file that share what is made once for it.

    The checks of the contract are dealt out to a few groups for each backend. What waits longest comes first.
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
    """Make sure that groups are what pytest-xdist has understood: it writes them behind the name of a test.

    What was imported by now stays, so that the collector need not look at it again and again.
    """
    gc.freeze()
    if getattr(session.config.option, "loadgroup", False):
        for item in session.items:
            if item.get_closest_marker("xdist_group") and "@" not in item.nodeid:
                raise pytest.UsageError("this pytest-xdist passes over the groups of tests; see pyproject.toml")


@pytest.fixture
def nap() -> str:
    """Seconds to sleep for: long, and such as no other test sleeps for, so that its processes can be told apart."""
    return f"9{secrets.randbelow(10**6):06}.{secrets.randbelow(10**6):06}"


@pytest.fixture
def without_collector() -> Iterator[None]:
    """Keep the collector from a test that calls as deep as Python does: another test's finalizer has no room there."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.fixture
def configure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], None]:
    """Writes config.yaml, in a settings directory of the test's own."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HERMES_HOME", str(home))
    return lambda text: (home / "config.yaml").write_text(text) and None


@pytest.fixture(scope="module")
def subject(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Subject]:
    """A backend, from `targets.backends`, that checks of the contract run on; the test names it as a parameter."""
    with request.param(tmp_path_factory.mktemp("session")) as made:
        yield made
        made.close()
