"""All checks, and running them."""

from __future__ import annotations

from collections.abc import Iterable

from environments.conformance.background import CHECKS as BACKGROUND
from environments.conformance.bounded import CHECKS as BOUNDED
from environments.conformance.calls import CHECKS as CALLS
from environments.conformance.check import Check, ConformanceError, Subject
from environments.conformance.cleanup import CHECKS as CLEANUP
from environments.conformance.ending import CHECKS as ENDING
from environments.conformance.entries import CHECKS as ENTRIES
from environments.conformance.file_errors import CHECKS as FILE_ERRORS
from environments.conformance.files import CHECKS as FILES
from environments.conformance.init_files import CHECKS as INIT_FILES
from environments.conformance.input import CHECKS as INPUT
from environments.conformance.loss import CHECKS as LOSS
from environments.conformance.oneshot import CHECKS as ONESHOT
from environments.conformance.output import CHECKS as OUTPUT
from environments.conformance.refusal import CHECKS as REFUSAL
from environments.conformance.secrecy import CHECKS as SECRECY
from environments.conformance.session import CHECKS as SESSION
from environments.conformance.sessions import CHECKS as SESSIONS
from environments.conformance.target import CHECKS as TARGET
from environments.conformance.users import CHECKS as USERS

CHECKS: tuple[Check, ...] = (
    *SESSION,
    *SESSIONS,
    *INIT_FILES,
    *INPUT,
    *ONESHOT,
    *ENDING,
    *OUTPUT,
    *CALLS,
    *BACKGROUND,
    *FILES,
    *ENTRIES,
    *FILE_ERRORS,
    *SECRECY,
    *LOSS,
    *CLEANUP,
    *REFUSAL,
    *USERS,
    *TARGET,
    *BOUNDED,
)


def run_checks(subject: Subject, checks: Iterable[Check] | None = None) -> dict[str, ConformanceError]:
    """Run checks, all by default, and return those that failed, by name."""
    failures = {}
    try:
        for check in checks or CHECKS:
            try:
                check.run(subject)
            except ConformanceError as error:
                failures[check.name] = error
    finally:
        subject.close()
    return failures
