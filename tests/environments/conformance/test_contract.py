"""All conformance checks on the backend local."""

from __future__ import annotations

from operator import attrgetter

import pytest
from targets.backends import local

from environments.conformance import CHECKS, Check, Subject


@pytest.mark.parametrize("check", CHECKS, ids=attrgetter("name"))
@pytest.mark.parametrize("subject", [local], ids=attrgetter("__name__"), indirect=True)
def test_the_contract_holds(check: Check, subject: Subject) -> None:
    check.run(subject)
