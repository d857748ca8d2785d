"""Streams of `exec`, `cp` and `shell` on each engine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from targets.backends import docker, docker_minimal, singularity, ssh
from targets.streamed import (
    check_a_terminal_passes_its_size_and_control_c,
    check_a_time_out_ends_a_command_that_does_not_read,
    check_every_byte_passes_both_ways,
)

from environments import BaseEnvironment


@pytest.fixture(
    scope="module", params=[docker, docker_minimal, singularity, ssh], ids=lambda backend: str(backend.__name__)
)
def environment(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BaseEnvironment]:
    with request.param(tmp_path_factory.mktemp("there")) as subject, subject.make() as environment:
        yield environment


def test_every_byte_passes_both_ways(environment: BaseEnvironment) -> None:
    check_every_byte_passes_both_ways(environment)


def test_a_time_out_ends_a_command_that_does_not_read(environment: BaseEnvironment, nap: str) -> None:
    check_a_time_out_ends_a_command_that_does_not_read(environment, nap, timeout=2)


def test_a_person_is_at_a_terminal_there(environment: BaseEnvironment, nap: str) -> None:
    check_a_terminal_passes_its_size_and_control_c(environment, nap)
