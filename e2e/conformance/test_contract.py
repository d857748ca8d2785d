"""Conformance checks on engines: all on Docker and SSH, the groups that differ on the others."""

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

SANDBOX_GROUPS = {"ending", "files", "secrecy", "loss", "cleanup", "refusal"}
"""A sandbox or an instance has its own first process, mounts, accounts and variables."""
BUSYBOX_GROUPS = {"session", "ending", "files"}
"""An image without bash runs other programs for each of our shell texts."""
ALLOW_LIST_GROUPS = {"ending", "loss", "cleanup", "refusal"}
"""With a list of allowed hosts, a proxy process runs beside all commands."""
PODMAN_GROUPS = {"commands", "output", "loss", "cleanup", "refusal"}
"""Another engine behind the same client has its own streams, ids and limits."""


def checks_of(groups: set[str]) -> list[Check]:
    found = [check for check in CHECKS if check.group in groups]
    assert {check.group for check in found} == groups
    return found


@pytest.mark.parametrize("check", CHECKS, ids=attrgetter("name"))
@pytest.mark.parametrize("subject", [docker, ssh], ids=attrgetter("__name__"), indirect=True)
def test_the_contract_holds(check: Check, subject: Subject) -> None:
    check.run(subject)


@pytest.mark.parametrize("check", checks_of(SANDBOX_GROUPS), ids=attrgetter("name"))
@pytest.mark.parametrize("subject", [bubblewrap, singularity], ids=attrgetter("__name__"), indirect=True)
def test_the_contract_holds_in_a_sandbox(check: Check, subject: Subject) -> None:
    check.run(subject)


@pytest.mark.parametrize("check", checks_of(ALLOW_LIST_GROUPS), ids=attrgetter("name"))
@pytest.mark.parametrize("subject", [bubblewrap_listed, docker_listed], ids=attrgetter("__name__"), indirect=True)
def test_the_contract_holds_with_a_list_of_hosts(check: Check, subject: Subject) -> None:
    check.run(subject)


@pytest.mark.parametrize("check", checks_of(BUSYBOX_GROUPS), ids=attrgetter("name"))
@pytest.mark.parametrize("subject", [docker_minimal], ids=attrgetter("__name__"), indirect=True)
def test_the_contract_holds_in_an_image_without_bash(check: Check, subject: Subject) -> None:
    check.run(subject)


@pytest.mark.parametrize("check", checks_of(PODMAN_GROUPS), ids=attrgetter("name"))
@pytest.mark.parametrize("subject", [podman], ids=attrgetter("__name__"), indirect=True)
def test_the_contract_holds_on_podman(check: Check, subject: Subject) -> None:
    check.run(subject)
