"""Snapshots and forks, as all backends have them."""

from __future__ import annotations

import pytest

from environments import UnsupportedError, create_environment


def test_a_backend_without_snapshots_refuses_before_anything_is_started() -> None:
    with create_environment("local") as env:
        with pytest.raises(UnsupportedError, match="docker"):
            env.snapshot("after-setup")
        with pytest.raises(UnsupportedError, match="docker"):
            env.fork()
        assert not env.is_ready


@pytest.mark.parametrize("name", ["", "a b", "-a", "a/b", "a:b", "ä", "a" * 64, "a\n"])
def test_a_name_that_an_engine_would_not_take_is_refused_with_the_rule(name: str) -> None:
    with create_environment("local") as env, pytest.raises(ValueError, match="letters, digits"):
        env.snapshot(name)
