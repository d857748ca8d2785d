"""The contract on the cloud stand-ins, on short commands alone, and on engines that are reached over SSH."""

from __future__ import annotations

from operator import attrgetter

import pytest
from targets.backends import OVER_SSH, daytona, modal, per_command

from environments.conformance import CHECKS, Check, Subject


@pytest.mark.parametrize("check", CHECKS, ids=attrgetter("name"))
@pytest.mark.parametrize("subject", [modal, daytona, per_command, *OVER_SSH], ids=attrgetter("__name__"), indirect=True)
def test_the_contract_holds(check: Check, subject: Subject) -> None:
    check.run(subject)
