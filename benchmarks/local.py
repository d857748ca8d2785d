"""This machine."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from collections.abc import Iterator

from benchmarks.engine import Engine, Goals, rows_of
from benchmarks.measure import clocked, in_turn
from benchmarks.peers.peer import HERMES_AGENT, INSPECT_AI, OPENAI_AGENTS, SWE_REX, opened_peers
from benchmarks.peers.scripts import PRINTING
from benchmarks.raw_process import NOTHING, PipedProcess
from benchmarks.replayed_shell import ReplayedShell
from benchmarks.table import OURS, RAW, Row
from benchmarks.tool_calls import socket_times
from environments import BaseEnvironment, create_environment

PLACE = {"place": "local"}
PEERS = (HERMES_AGENT, SWE_REX, INSPECT_AI, OPENAI_AGENTS)


def rows() -> Iterator[Row]:
    """Measure all operations on this machine."""
    python = [sys.executable, "-c", PRINTING]
    with (
        opened_peers(dict.fromkeys(PEERS, PLACE)) as (peers, missing),
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
                goals=Goals(command=4, call=1.5, script=1.3, script_with_call=1.6),
            )
        )
        yield _reported(env)
        yield _beside_computing(env, bash)


def _reported(env: BaseEnvironment) -> Row:
    """Measure a command beside the same text in a bash: the difference is our Python's cost."""
    with ReplayedShell("true") as bash:
        measured = in_turn(
            {RAW: clocked(bash.run), OURS: clocked(lambda: env.execute("true"))}, seconds=2, least_rounds=200
        )
    raw_is = "the very text to a bash, until all is reported"
    return Row.of('execute("true"), state reported, local', measured, goal=1.2, raw_is=raw_is)


def _beside_computing(env: BaseEnvironment, bash: PipedProcess) -> Row:
    """Measure a command beside a computing thread: each switch of threads waits for the interpreter lock."""
    ended = threading.Event()

    def compute() -> None:
        while not ended.is_set():
            sum(range(1000))

    thread = threading.Thread(target=compute)
    thread.start()
    with contextlib.ExitStack() as ending:
        ending.callback(thread.join)
        ending.callback(ended.set)
        measured = in_turn(
            {RAW: clocked(lambda: bash.round_trip(NOTHING)), OURS: clocked(lambda: env.execute("true"))},
            seconds=3,
            least_rounds=50,
        )
    raw_is = "a line to one bash there, beside the same thread"
    return Row.of('execute("true"), beside a thread that computes, local', measured, raw_is=raw_is)
