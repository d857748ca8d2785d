"""The contract of an environment as checks that run without any test framework, for every backend.

    from environments import create_environment
    from environments.conformance import CHECKS, Subject, run_checks

    failures = run_checks(Subject(lambda **settings: create_environment("mine", **settings)))

A check is a sentence about what holds, with the line of the contract it belongs to (docs/contract.md).
"""

from environments.conformance import (
    background,
    cleanup,
    ending,
    files,
    input,
    loss,
    oneshot,
    output,
    refusal,
    secrecy,
    session,
)
from environments.conformance.check import Check, ConformanceError, Subject, run_checks

CHECKS: tuple[Check, ...] = (
    *session.CHECKS,
    *input.CHECKS,
    *oneshot.CHECKS,
    *ending.CHECKS,
    *output.CHECKS,
    *background.CHECKS,
    *files.CHECKS,
    *secrecy.CHECKS,
    *loss.CHECKS,
    *cleanup.CHECKS,
    *refusal.CHECKS,
)

__all__ = ["CHECKS", "Check", "ConformanceError", "Subject", "run_checks"]
