"""All checks, and running them."""

from __future__ import annotations

from collections.abc import Iterable

from environments.conformance import (  # noqa: F401  # each adds its checks
    bounded,
    cleanup,
    commands,
    ending,
    files,
    loss,
    output,
    refusal,
    secrecy,
    session,
)
from environments.conformance.check import CHECKS as ADDED
from environments.conformance.check import Check, ConformanceError, Subject

CHECKS: tuple[Check, ...] = tuple(sorted(ADDED, key=lambda check: check.line))


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
