"""The suites of all frameworks on our plugs: the newest release here and in Docker, the oldest in Docker."""

from __future__ import annotations

import pytest

from plugs.frameworks import BY_NAME, Release
from plugs.running import run

RUNS: tuple[tuple[Release, str], ...] = (("newest", "docker"), ("oldest", "docker"), ("newest", "local"))
PARAMETERS = [
    pytest.param(name, release, place, marks=pytest.mark.xdist_group(f"plug {name} {release}"))
    for name in BY_NAME
    for release, place in RUNS
    if (name, place) != ("harbor", "local")  # a trial writes to the root directory
]


@pytest.mark.timeout(1800)  # the first run installs the framework
@pytest.mark.parametrize(("name", "release", "place"), PARAMETERS)
def test_the_tests_of_a_framework_end_as_expected(name: str, release: Release, place: str) -> None:
    outcome = run(BY_NAME[name], release, place)
    assert not outcome.failure, outcome.failure
    passed, there_are = outcome.counted()
    assert passed > there_are / 2
