"""The contract on the cloud stand-ins, on dash, on short commands alone, and on engines over SSH."""

from __future__ import annotations

from operator import attrgetter

import pytest
from targets.backends import OVER_SSH, daytona, modal, per_command, without_bash

from environments.conformance import CHECKS, Check, Subject

SUBJECTS = (without_bash, per_command, modal, daytona, *OVER_SSH)


@pytest.mark.parametrize("check", CHECKS, ids=attrgetter("name"))
@pytest.mark.parametrize(
    "subject", [without_bash, per_command, modal, daytona, *OVER_SSH], ids=attrgetter("__name__"), indirect=True
)
def test_the_contract_holds(check: Check, subject: Subject) -> None:
    check.run(subject)
