"""The contract, on every backend."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from operator import attrgetter

import pytest
from targets.backends import BACKENDS, OVER_SSH, Backend, podman

from environments.conformance import CHECKS, Check, Subject
from environments.conformance.background import CHECKS as BACKGROUND
from environments.conformance.cleanup import CHECKS as CLEANUP
from environments.conformance.ending import CHECKS as ENDING
from environments.conformance.loss import CHECKS as LOSS
from environments.conformance.oneshot import CHECKS as ONESHOT
from environments.conformance.output import CHECKS as OUTPUT
from environments.conformance.refusal import CHECKS as REFUSAL
from environments.conformance.secrecy import CHECKS as SECRECY
from environments.conformance.target import CHECKS as TARGET
from environments.conformance.users import CHECKS as USERS

OF_THE_ENGINE = [*chain(ONESHOT, ENDING, OUTPUT, BACKGROUND, SECRECY, LOSS, CLEANUP, REFUSAL, USERS, TARGET)]
"""What another engine could do in another way. The rest is done by shells alone, in containers of the same image."""


@pytest.fixture(scope="module")
def subject(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Subject]:
    backend: Backend = request.param
    with backend(tmp_path_factory.mktemp("session")) as made:
        yield made
        made.close()


# Parameters of their own, not pairs: with each new pair pytest would make the subject anew.
@pytest.mark.parametrize("check", CHECKS, ids=attrgetter("name"))
@pytest.mark.parametrize("subject", [*BACKENDS, *OVER_SSH], ids=attrgetter("__name__"), indirect=True)
def test_the_contract_holds(check: Check, subject: Subject) -> None:
    check.run(subject)


@pytest.mark.parametrize("check", OF_THE_ENGINE, ids=attrgetter("name"))
@pytest.mark.parametrize("subject", [podman], ids=attrgetter("__name__"), indirect=True)
def test_another_engine_holds_it(check: Check, subject: Subject) -> None:
    check.run(subject)
