"""The measurements of every engine and of this machine: commands, scripts, tool calls, tools and files."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import file_tools
from benchmarks.measure import Timer, UnavailableError, clocked, every_nth, in_turn, timed
from benchmarks.peers.peer import Peer, timers_of
from benchmarks.peers.scripts import CALLING, LASTING, PRINTING
from benchmarks.raw_process import NOTHING, RawProcess
from benchmarks.table import OURS, RAW, Row
from benchmarks.tool_calls import stream_times, tool_call_times
from code_execution import PythonSession, execute_code
from code_execution.limits import TransportName
from environments import BaseEnvironment

FILE_SIZE = 100_000_000
CALLS, FILE_CALLS = 100, 20
LINE = f"{RAW}: a line"
SLOW_EVERY = 25
"""Turns of our command for a turn of a client or peer, which takes a hundred times as long."""
_MESSAGE = b'{"tool":"noop"}\n'
TARGET_FILE = "/var/tmp/hermes-benchmark"
"""The path of a large file in the target, for copies in both directions."""


@dataclass(frozen=True, slots=True)
class Goals:
    """The goals, as multiples of the raw cost; None without a goal."""

    command: float | None = None
    call: float | None = None
    queued_call: float | None = None
    script: float | None = None
    script_with_call: float | None = None
    session: float | None = 5
    """The goal of a script in a `PythonSession`, as a multiple of our own command."""


@dataclass(frozen=True, slots=True)
class Copying:
    """Copies by the engine's own client: a file to `TARGET_FILE`, and `TARGET_FILE` to a file here."""

    put: Callable[[Path], object]
    get: Callable[[Path], object]
    raw_is: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """An engine, ready for use, with access without this package."""

    name: str
    env: BaseEnvironment
    bash: RawProcess
    """A bash in the target."""
    cat: RawProcess | None = None
    """A `cat` in the target, for the least cost of a line in both directions."""
    clients: Mapping[str, Callable[[Sequence[str]], object]]
    """Runs of a command by the engine's own clients, by name."""
    peers: Mapping[str, Peer]
    missing: Mapping[str, str]
    """The reasons for missing peers."""
    goals: Goals
    peer_calls: int = 5
    """Tool calls in a turn of a peer's script."""
    transport: TransportName = "relay"
    """The fastest transport of tool calls."""
    python: Timer | None = None
    """Starts Python in the target more cheaply than by the bash, if possible."""
    call: Timer | None = None
    """Makes JSON round trips more cheaply than by a Python of the bash, if possible."""
    call_is: str = "a JSON round trip between a Python there and this one, over one stream"
    copying: Copying | None = None
    more: Mapping[str, Timer] = field(default_factory=dict)
    """Other runs of a command in the target, by name."""


def rows_of(engine: Engine) -> Iterator[Row]:
    """Measure all operations on an engine."""
    yield from _commands(engine)
    yield from _tool_calls(engine)
    yield from _scripts(engine)
    yield from _scripts_with_call(engine)
    yield from _lasting_pythons(engine)
    yield from file_tools.rows_of(engine.name, engine.env, engine.bash)
    if engine.copying:
        yield from _files(engine, engine.copying)


def _commands(engine: Engine) -> Iterator[Row]:
    env = engine.env
    measured = in_turn(
        {
            RAW: clocked(lambda: engine.bash.round_trip(NOTHING)),
            OURS: clocked(lambda: env.execute("true")),
            f"{OURS}: oneshot": clocked(lambda: env.execute_oneshot("true")),
            **_client_timers(engine, ["true"], SLOW_EVERY),
            **{name: every_nth(timer, SLOW_EVERY) for name, timer in engine.more.items()},
            **timers_of(engine.peers, "command", SLOW_EVERY),
        },
        seconds=3,
        least_rounds=8 * SLOW_EVERY,
        missing=engine.missing,
    )
    raw_is = "a line to one bash there"
    yield Row.of(f'execute("true"), {engine.name}', measured, goal=engine.goals.command, raw_is=raw_is)
    what = f'execute_oneshot("true"), {engine.name}'
    yield Row.of(what, measured, ours=f"{OURS}: oneshot", raw_is=raw_is, alone=True)


def _tool_calls(engine: Engine) -> Iterator[Row]:
    def of(peer: Peer) -> Timer:
        return lambda: peer.ask("tool_calls", {"calls": engine.peer_calls})[1]

    env, goals, raw_is = engine.env, engine.goals, engine.call_is
    measured = in_turn(
        {
            RAW: engine.call or _calls_from(engine.bash),
            **({LINE: _lines_through(engine.cat)} if engine.cat else {}),
            OURS: lambda: tool_call_times(env, engine.transport, CALLS),
            f"{OURS}: file": lambda: tool_call_times(env, "file", FILE_CALLS),
            **{name: of(peer) for name, peer in engine.peers.items() if "tool_calls" in peer.works},
        },
        seconds=3,
        least_rounds=3,
        missing=engine.missing,
    )
    what = f"tool call, {engine.name}, "
    yield Row.of(f"{what}{engine.transport}", measured, goal=goals.call, raw_is=raw_is)
    if engine.cat:
        line_is = "a line through a `cat` there, again and again"
        yield Row.of(f"{what}{engine.transport}, beside a `cat`", measured, raw=LINE, raw_is=line_is, alone=True)
    ours = f"{OURS}: file"
    yield Row.of(f"{what}file queue", measured, ours=ours, goal=goals.queued_call, raw_is=raw_is, alone=True)


def _scripts(engine: Engine) -> Iterator[Row]:
    timers = {
        RAW: engine.python or _python_in(engine.bash),
        OURS: _our_script(engine, PRINTING),
        **_client_timers(engine, ["python3", "-c", PRINTING]),
        **timers_of(engine.peers, "script"),
    }
    measured = in_turn(timers, seconds=3, least_rounds=8, missing=engine.missing)
    what = f'execute_code("{PRINTING}"), {engine.name}'
    yield Row.of(what, measured, goal=engine.goals.script, raw_is="starting Python there")


def _scripts_with_call(engine: Engine) -> Iterator[Row]:
    timers = {
        RAW: engine.python or _python_in(engine.bash),
        OURS: _our_script(engine, CALLING),
        **timers_of(engine.peers, "script_with_call"),
    }
    measured = in_turn(timers, seconds=3, least_rounds=8, missing=engine.missing)
    what = f"execute_code with a tool call, {engine.name}"
    yield Row.of(what, measured, goal=engine.goals.script_with_call, raw_is="starting Python there, without the call")


def _lasting_pythons(engine: Engine) -> Iterator[Row]:
    with PythonSession(engine.env) as session:
        timers = {
            RAW: clocked(lambda: engine.env.execute("true")),
            OURS: clocked(lambda: _run_in(session)),
            **timers_of(engine.peers, "python_session", SLOW_EVERY),
        }
        measured = in_turn(timers, seconds=3, least_rounds=8 * SLOW_EVERY, missing=engine.missing)
    what = f'session.execute("{LASTING}"), {engine.name}'
    yield Row.of(what, measured, goal=engine.goals.session, raw_is='our own execute("true") there')


def _run_in(session: PythonSession) -> None:
    result = session.execute(LASTING)
    if result.status != "success":
        raise UnavailableError(f"the script ended with {result.status}: {result.output}")


def _client_timers(engine: Engine, words: Sequence[str], every: int = 1) -> dict[str, Timer]:
    def of(run: Callable[[Sequence[str]], object]) -> Timer:
        return every_nth(clocked(lambda: run(words)), every)

    return {name: of(run) for name, run in engine.clients.items()}


def _our_script(engine: Engine, code: str) -> Timer:
    def run() -> None:
        result = execute_code(code, env=engine.env)
        if result.status != "success":
            raise UnavailableError(f"the script ended with {result.status}: {result.output}")

    return clocked(run)


def _files(engine: Engine, copying: Copying) -> Iterator[Row]:
    env = engine.env
    with tempfile.TemporaryDirectory() as directory:
        file, back = Path(directory, "there"), Path(directory, "back")
        file.write_bytes(os.urandom(1_000_000) * (FILE_SIZE // 1_000_000))
        for what, raw, ours in (
            ("put_file", lambda: copying.put(file), lambda: env.put_file(file, TARGET_FILE)),
            ("get_file", lambda: copying.get(back), lambda: env.get_file(TARGET_FILE, back)),
        ):
            measured = in_turn({RAW: clocked(raw), OURS: clocked(ours)}, seconds=0, least_rounds=5)
            yield Row.of(f"{what} of 100 MB, {engine.name}", measured, goal=1, raw_is=copying.raw_is)
    env.execute(f"rm -f {TARGET_FILE}")


def _python_in(bash: RawProcess) -> Timer:
    line = f"python3 -c '{PRINTING}'\n".encode()
    return clocked(lambda: bash.round_trip(line))


def _calls_from(bash: RawProcess) -> Timer:
    return lambda: stream_times(bash, CALLS)


def _lines_through(cat: RawProcess) -> Timer:
    return lambda: [timed(lambda: cat.round_trip(_MESSAGE)) for _ in range(CALLS)]
