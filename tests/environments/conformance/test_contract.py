"""The contract on this machine: the whole of it over bash, and over dash what its texts for a POSIX shell can break."""

from __future__ import annotations

from operator import attrgetter

import pytest
from targets.backends import local, without_bash

from environments.conformance import CHECKS, Check, Subject
from environments.conformance.background import CHECKS as BACKGROUND
from environments.conformance.cleanup import CHECKS as CLEANUP
from environments.conformance.ending import CHECKS as ENDING
from environments.conformance.init_files import CHECKS as INIT_FILES
from environments.conformance.input import CHECKS as INPUT
from environments.conformance.oneshot import CHECKS as ONESHOT
from environments.conformance.session import CHECKS as SESSION
from environments.conformance.sessions import CHECKS as SESSIONS

OF_A_SHELL = (*SESSION, *SESSIONS, *INIT_FILES, *INPUT, *ONESHOT, *ENDING, *BACKGROUND, *CLEANUP)
"""Files through a shell without bash are checked on the image without it, in e2e/conformance."""


@pytest.mark.parametrize("check", CHECKS, ids=attrgetter("name"))
@pytest.mark.parametrize("subject", [local], ids=attrgetter("__name__"), indirect=True)
def test_the_contract_holds(check: Check, subject: Subject) -> None:
    check.run(subject)


@pytest.mark.parametrize("check", OF_A_SHELL, ids=attrgetter("name"))
@pytest.mark.parametrize("subject", [without_bash], ids=attrgetter("__name__"), indirect=True)
def test_a_posix_shell_holds_it(check: Check, subject: Subject) -> None:
    check.run(subject)
