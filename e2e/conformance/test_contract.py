"""The contract on engines: the whole of it on Docker and SSH, on the others what sets them apart."""

from __future__ import annotations

from operator import attrgetter

import pytest
from targets.backends import bubblewrap, docker, docker_minimal, podman, singularity, ssh

from environments.conformance import CHECKS, Check, Subject
from environments.conformance.background import CHECKS as BACKGROUND
from environments.conformance.cleanup import CHECKS as CLEANUP
from environments.conformance.ending import CHECKS as ENDING
from environments.conformance.entries import CHECKS as ENTRIES
from environments.conformance.file_errors import CHECKS as FILE_ERRORS
from environments.conformance.files import CHECKS as FILES
from environments.conformance.loss import CHECKS as LOSS
from environments.conformance.oneshot import CHECKS as ONESHOT
from environments.conformance.output import CHECKS as OUTPUT
from environments.conformance.refusal import CHECKS as REFUSAL
from environments.conformance.secrecy import CHECKS as SECRECY
from environments.conformance.session import CHECKS as SESSION
from environments.conformance.target import CHECKS as TARGET
from environments.conformance.users import CHECKS as USERS

OF_A_SANDBOX = (*ENDING, *FILES, *SECRECY, *LOSS, *CLEANUP, *REFUSAL, *USERS, *TARGET)
"""A sandbox or an instance has its own first process, mounts, accounts and variables."""
OF_BUSYBOX = (*SESSION, *ENDING, *BACKGROUND, *FILES, *ENTRIES, *FILE_ERRORS)
"""An image without bash has other programs behind each of our texts."""
OF_ANOTHER_ENGINE = (*ONESHOT, *OUTPUT, *LOSS, *CLEANUP, *REFUSAL, *TARGET)
"""Another engine behind the same client has its own streams, ids and limits."""


@pytest.mark.parametrize("check", CHECKS, ids=attrgetter("name"))
@pytest.mark.parametrize("subject", [docker, ssh], ids=attrgetter("__name__"), indirect=True)
def test_the_contract_holds(check: Check, subject: Subject) -> None:
    check.run(subject)


@pytest.mark.parametrize("check", OF_A_SANDBOX, ids=attrgetter("name"))
@pytest.mark.parametrize("subject", [bubblewrap, singularity], ids=attrgetter("__name__"), indirect=True)
def test_a_sandbox_holds_it(check: Check, subject: Subject) -> None:
    check.run(subject)


@pytest.mark.parametrize("check", OF_BUSYBOX, ids=attrgetter("name"))
@pytest.mark.parametrize("subject", [docker_minimal], ids=attrgetter("__name__"), indirect=True)
def test_an_image_without_bash_holds_it(check: Check, subject: Subject) -> None:
    check.run(subject)


@pytest.mark.parametrize("check", OF_ANOTHER_ENGINE, ids=attrgetter("name"))
@pytest.mark.parametrize("subject", [podman], ids=attrgetter("__name__"), indirect=True)
def test_another_engine_holds_it(check: Check, subject: Subject) -> None:
    check.run(subject)
