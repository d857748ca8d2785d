"""The contract on engines: the whole of it on Docker and SSH, on the others what sets them apart."""

from __future__ import annotations

from operator import attrgetter

import pytest
from targets.backends import (
    bubblewrap,
    bubblewrap_listed,
    docker,
    docker_listed,
    docker_minimal,
    podman,
    singularity,
    ssh,
)

from environments.conformance import CHECKS, Check, Subject

OF_A_SANDBOX = {"ending", "files", "secrecy", "loss", "cleanup", "refusal"}
"""A sandbox or an instance has its own first process, mounts, accounts and variables."""
OF_BUSYBOX = {"session", "ending", "files"}
"""An image without bash has other programs behind each of our texts."""
OF_A_LIST = {"ending", "loss", "cleanup", "refusal"}
"""Where a list of hosts can be reached, a process of ours runs beside all commands."""
OF_ANOTHER_ENGINE = {"commands", "output", "loss", "cleanup", "refusal"}
"""Another engine behind the same client has its own streams, ids and limits."""


def checks_of(groups: set[str]) -> list[Check]:
    found = [check for check in CHECKS if check.group in groups]
    assert {check.group for check in found} == groups
    return found


@pytest.mark.parametrize("check", CHECKS, ids=attrgetter("name"))
@pytest.mark.parametrize("subject", [docker, ssh], ids=attrgetter("__name__"), indirect=True)
def test_the_contract_holds(check: Check, subject: Subject) -> None:
    check.run(subject)


@pytest.mark.parametrize("check", checks_of(OF_A_SANDBOX), ids=attrgetter("name"))
@pytest.mark.parametrize("subject", [bubblewrap, singularity], ids=attrgetter("__name__"), indirect=True)
def test_a_sandbox_holds_it(check: Check, subject: Subject) -> None:
    check.run(subject)


@pytest.mark.parametrize("check", checks_of(OF_A_LIST), ids=attrgetter("name"))
@pytest.mark.parametrize("subject", [bubblewrap_listed, docker_listed], ids=attrgetter("__name__"), indirect=True)
def test_one_with_a_list_of_hosts_holds_it(check: Check, subject: Subject) -> None:
    check.run(subject)


@pytest.mark.parametrize("check", checks_of(OF_BUSYBOX), ids=attrgetter("name"))
@pytest.mark.parametrize("subject", [docker_minimal], ids=attrgetter("__name__"), indirect=True)
def test_an_image_without_bash_holds_it(check: Check, subject: Subject) -> None:
    check.run(subject)


@pytest.mark.parametrize("check", checks_of(OF_ANOTHER_ENGINE), ids=attrgetter("name"))
@pytest.mark.parametrize("subject", [podman], ids=attrgetter("__name__"), indirect=True)
def test_another_engine_holds_it(check: Check, subject: Subject) -> None:
    check.run(subject)
