"""The contract, on every backend."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from plain_local import PlainLocal

from environments import BaseEnvironment, create_environment, load_settings
from environments.conformance import CHECKS, Check, Subject


def local(tmp_path_factory: pytest.TempPathFactory) -> Subject:
    """This machine."""
    cwd = tmp_path_factory.mktemp("session")

    def make(**settings: object) -> BaseEnvironment:
        return create_environment("local", **{"cwd": str(cwd), **settings})

    return Subject(make, refused_settings={"container_memory": 512, "container_cpu": 1, "container_disk": 512})


def without_bash(tmp_path_factory: pytest.TempPathFactory) -> Subject:
    """This machine over dash, with everything by the base class's own means."""
    cwd = tmp_path_factory.mktemp("session")

    def make(**settings: object) -> BaseEnvironment:
        return PlainLocal(load_settings("local", **{"cwd": str(cwd), **settings}))

    return Subject(make)


@pytest.fixture(scope="module", params=[local, without_bash], ids=lambda backend: backend.__name__)
def subject(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Subject]:
    made = request.param(tmp_path_factory)
    yield made
    made.close()


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_the_contract_holds(check: Check, subject: Subject) -> None:
    check.run(subject)
