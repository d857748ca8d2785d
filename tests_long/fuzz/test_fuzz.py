"""A short run of each fuzz target under hypothesis; `make fuzz` runs longer."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fuzz.all_targets import TARGETS
from fuzz.target import Target

TRIES = 300


@pytest.mark.parametrize("target", TARGETS, ids=[target.name for target in TARGETS])
def test_any_bytes_are_read_or_refused(target: Target) -> None:
    pieces = st.lists(st.one_of(st.sampled_from(target.words), st.binary(max_size=20)), max_size=20)

    # The same bytes in each run, so that an unrelated change never fails here.
    @settings(max_examples=TRIES, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    @given(chance=st.binary(min_size=2, max_size=2), pieces=pieces)
    def try_any(chance: bytes, pieces: list[bytes]) -> None:
        target.check(chance + b"".join(pieces))
        target.check(b"".join(pieces))

    try_any()
