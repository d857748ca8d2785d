"""Every claim of docs/security.md names an existing test, in a ring of CI."""

from __future__ import annotations

import re

from code_execution.limits import ENDING_LIMIT, REMOVAL_LIMIT, SCRIPT_GRACE
from docs.documents import ROOT
from environments.conformance import CHECKS
from environments.docker.creation import KEPT_CAPABILITIES
from hermes_env.mcp.http import MAX_CONNECTIONS as MCP_CONNECTIONS
from hermes_tools.interruption import MAX_BLOCKING
from rpc.call_threads import MAX_THREADS
from rpc.connection import LARGE_LINES, MAX_CONNECTIONS
from rpc.dispatcher import KEPT_BYTES
from rpc.messages import MAX_MESSAGE_BYTES, MAX_VALUES

TEXT = (ROOT / "docs/security.md").read_text()
_TEST = re.compile(r"^ *(?:async )?def (test_\w+)", re.MULTILINE)
_NAME = re.compile(r"`(test_\w+|\w+_\w+_\w+_\w+)`")
_TABLE = re.compile(r"^\|.*\| test \|\n\|[-|]+\|\n((?:\|.*\n)+)", re.MULTILINE)
NO_PROMISE = {"| `local` | none: commands run as you | |", "| `modal`, `daytona` | the service's own sandbox | |"}
"""Rows without a claim."""


def named_in(*rings: str) -> set[str]:
    found = {check.name for check in CHECKS}
    for ring in rings:
        for file in (ROOT / ring).rglob("*.py"):
            found |= set(_TEST.findall(file.read_text()))
    return found


def test_every_test_that_security_names_is_there() -> None:
    assert set(_NAME.findall(TEXT)) <= named_in("tests", "e2e", "tests_long")


def test_every_row_of_a_claim_names_a_test_that_ci_runs() -> None:
    lines = [line for table in _TABLE.findall(TEXT) for line in table.splitlines() if line not in NO_PROMISE]
    assert len(lines) > 40
    assert set(re.findall(r"^\|.*`test_.*", TEXT, re.MULTILINE)) <= set(lines)
    run = named_in("tests", "e2e")
    assert [line for line in lines if not run & set(_NAME.findall(line))] == []


def test_security_states_the_limits_of_the_code() -> None:
    assert (SCRIPT_GRACE, ENDING_LIMIT + REMOVAL_LIMIT - SCRIPT_GRACE) == (5, 5)
    for claim in (
        "within its limit, 5 s of grace and 5 s",
        f"{MAX_CONNECTIONS} connections, {MAX_THREADS} threads",
        f"one request of up to {MAX_MESSAGE_BYTES >> 20} MiB on {({2: 'two'})[LARGE_LINES]} of the connections",
        f"at most {MAX_VALUES:,} values in a message",
        f"answers are kept up to {KEPT_BYTES >> 20} MiB",
        f"{MAX_BLOCKING} of them may go on at once",
        f"a container with {({7: 'seven'})[len(KEPT_CAPABILITIES)]} of the capabilities",
        f"all {MCP_CONNECTIONS:,} connections",
    ):
        assert claim in TEXT, claim
