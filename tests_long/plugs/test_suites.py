"""What is run each time of frameworks' own tests: those of inspect_ai and deepagents, here and in Docker."""

from __future__ import annotations

import pytest

from plugs.frameworks import BY_NAME
from plugs.running import run

TOGETHER = (BY_NAME["inspect_ai"], BY_NAME["deepagents"])
PARAMETERS = [
    pytest.param(framework.name, place, marks=pytest.mark.xdist_group(f"plug {framework.name}"))
    for framework in TOGETHER
    for place in ("docker", "local")
]


@pytest.mark.timeout(1800)  # the first time, the frameworks are installed
@pytest.mark.parametrize(("name", "place"), PARAMETERS)
def test_the_tests_of_a_framework_end_as_expected(name: str, place: str) -> None:
    framework = BY_NAME[name]
    own = framework.suites[0][0]
    # What else we check of a plug is the same in all places: one is enough.
    outcome = run(framework, place, file=own if place == "local" else "", beside=TOGETHER)
    assert not outcome.failure, outcome.failure
    passed, there_are = outcome.counted(own)
    assert passed > there_are / 2
