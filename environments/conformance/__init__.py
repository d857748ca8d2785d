"""Conformance checks: the contract of every backend, executable without a test framework.

    from environments import create_environment
    from environments.conformance import CHECKS, Subject, run_checks

    failures = run_checks(Subject(lambda **settings: create_environment("mine", **settings)))

Each check is named by a sentence, and belongs to a line of the contract (docs/reliability.md).
"""

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
from environments.conformance.check import ADDED, Check, ConformanceError, Subject

__all__ = ["CHECKS", "Check", "ConformanceError", "Subject", "run_checks"]

CHECKS: tuple[Check, ...] = tuple(sorted(ADDED, key=lambda check: check.line))


def run_checks(subject: Subject, checks: Iterable[Check] | None = None) -> dict[str, ConformanceError]:
    """Run checks, by default all, and return the failures by name."""
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
