"""This machine."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

from benchmarks.engine import Engine, Goals, rows_of
from benchmarks.measure import clocked
from benchmarks.peers.peer import HERMES_AGENT, INSPECT_AI, SWE_REX, opened_peers
from benchmarks.peers.scripts import PRINTING
from benchmarks.raw_process import PipedProcess
from benchmarks.table import Row
from benchmarks.tool_calls import socket_times
from environments import create_environment

PLACE = {"place": "local"}


def rows() -> Iterator[Row]:
    """Measure everything here."""
    python = [sys.executable, "-c", PRINTING]
    with (
        opened_peers({HERMES_AGENT: PLACE, SWE_REX: PLACE, INSPECT_AI: PLACE}) as (peers, missing),
        create_environment("local") as env,
        PipedProcess(["bash", "--norc", "--noprofile"]) as bash,
    ):
        yield from rows_of(
            Engine(
                name="local",
                env=env,
                bash=bash,
                python=clocked(lambda: subprocess.run(python, capture_output=True, check=True)),
                call=lambda: socket_times(100),
                call_is="a JSON round trip over a Unix socket",
                transport="socket",
                clients={},
                more={"`bash -lc`": clocked(lambda: subprocess.run(["bash", "-lc", "true"], check=True))},
                peers=peers,
                missing=missing,
                goals=Goals(command=4, call=1.5, script=1),
            )
        )
