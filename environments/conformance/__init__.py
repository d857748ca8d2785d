"""The contract of an environment as checks that run without any test framework, for every backend.

    from environments import create_environment
    from environments.conformance import CHECKS, Subject, run_checks

    failures = run_checks(Subject(lambda **settings: create_environment("mine", **settings)))

A check is a sentence about what holds, with the line of the contract it belongs to (docs/contract.md).
"""

from environments.conformance.check import Check, ConformanceError, Subject
from environments.conformance.suite import CHECKS, run_checks

__all__ = ["CHECKS", "Check", "ConformanceError", "Subject", "run_checks"]
