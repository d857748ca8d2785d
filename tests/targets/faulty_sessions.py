"""Properties of a session over faulty streams: a result is right or missing, and no command runs twice."""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from environments import load_settings
from environments.errors import EnvironmentLostError, EnvironmentStartError
from environments.result import CommandResult
from targets.faulty_stream import FaultyLocal, StreamFault

LIMIT = 60
"""Seconds after which a call counts as hanging."""
COMMANDS = 4


def with_examples(count: int) -> settings:
    """Return Hypothesis's settings for a number of examples."""
    phases = [Phase.explicit, Phase.generate]
    return settings(max_examples=count, phases=phases, suppress_health_check=list(HealthCheck), database=None)


class CommandCounter:
    """Runs commands with a count of executions."""

    def __init__(self, fault: StreamFault, armed: bool = True, long: bool = False) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="faulty-"))
        self.env = FaultyLocal(load_settings("local", cwd=str(self.folder)), fault, armed)
        self.padding = f"; : {'x' * 3000}" if long else ""
        self.errors: list[Exception] = []

    def __enter__(self) -> CommandCounter:
        return self

    def __exit__(self, *_: object) -> None:
        within_limit(self.env.cleanup)
        shutil.rmtree(self.folder)

    def call(self, run: Callable[[], CommandResult]) -> CommandResult | None:
        """Return the result of a call; None if it raised."""
        found: list[CommandResult] = []

        def attempt() -> None:
            try:
                found.append(run())
            except (EnvironmentLostError, EnvironmentStartError) as error:
                self.errors.append(error)

        within_limit(attempt)
        return found[0] if found else None

    def count(self, number: int, beside: bool = False) -> None:
        """Run a numbered command, and expect the right result or an error."""
        run = self.env.execute_oneshot if beside else self.env.execute
        file = self.folder / str(number)
        command = f"echo ran >>{file}; echo out {number}; echo err {number} >&2; export HX_N={number}{self.padding}"
        apart = "separate" if number % 2 else "merge"
        result = self.call(lambda: run(command, stderr=apart))  # type: ignore[arg-type]
        ran = file.read_text() if file.exists() else ""
        if result is None:
            assert ran in ("", "ran\n"), "it ran at most once"
            return
        out, err = f"out {number}\n", f"err {number}\n"
        merged = out if apart == "separate" else out + err
        assert (result.output, result.stderr) == (merged, err if apart == "separate" else None)
        assert (result.exit_code, ran) == (0, "ran\n")


def within_limit(run: Callable[[], object]) -> None:
    """Run a function in a thread, fail if the function hangs, and raise its exception."""
    raised: list[BaseException] = []

    def catching() -> None:
        try:
            run()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=catching, daemon=True)
    thread.start()
    thread.join(LIMIT)
    assert not thread.is_alive(), "it hangs"
    if raised:
        raise raised[0]


def expect_right(caller: CommandCounter, whole: bool = False) -> None:
    """Expect the session's state after the last command, also in another shell.

    Args:
        caller: The owner of the session.
        whole: True if the state report must have arrived. A cut stream may end between a command's end and its state
            report; the next shell then has the state reported before.
    """
    while (result := caller.call(lambda: caller.env.execute("export HX_KEPT=1; exit 3"))) is None:
        assert len(caller.errors) <= 1, "a stream is cut once"
    assert (result.output, result.exit_code) == ("", 3)
    result = caller.call(lambda: caller.env.execute("echo $HX_N $HX_KEPT"))
    assert result and result.exit_code == 0
    kept = result.output.split()
    last, before = str(COMMANDS - 1), str(COMMANDS - 2)
    assert kept == [last, "1"] or (not whole and kept and kept[-1] in ("1", last, before))


positions = st.integers(0, 12_000)


@given(
    position=positions,
    armed_after=st.integers(0, COMMANDS - 1),
    direction=st.sampled_from(("output", "input")),
    long=st.booleans(),
)
def a_cut_stream_gives_the_right_result_or_none_and_runs_nothing_twice(
    position: int, armed_after: int, direction: str, long: bool
) -> None:
    fault = StreamFault("cut output" if direction == "output" else "cut input", 0, position)
    with CommandCounter(fault, armed=False, long=long) as caller:
        for number in range(COMMANDS):
            if number == armed_after:
                caller.env.arm()
            caller.count(number)
        assert len(caller.errors) <= 1
        expect_right(caller)


@given(position=st.integers(0, 12_000), direction=st.sampled_from(("output", "input")))
def a_stream_that_is_cut_while_its_shell_is_opened_is_an_error_or_another_is_opened(
    position: int, direction: str
) -> None:
    with CommandCounter(StreamFault("cut output" if direction == "output" else "cut input", 0, position)) as caller:
        for number in range(COMMANDS):
            caller.count(number)
        assert len(caller.errors) <= 1
        expect_right(caller)


@given(position=st.integers(0, 3000), stream=st.integers(1, 2), direction=st.sampled_from(("output", "input")))
def a_cut_stream_of_a_shell_beside_the_session_harms_nobody_else(position: int, stream: int, direction: str) -> None:
    fault = StreamFault("cut output" if direction == "output" else "cut input", stream, position)
    with CommandCounter(fault, armed=False) as caller:
        caller.count(0)
        caller.count(1, beside=True)
        caller.env.arm()
        caller.count(2, beside=True)
        ended = caller.call(lambda: caller.env.execute("echo so far; sleep 100; echo never", timeout=0.3))
        if ended:
            assert ended.timed_out and ended.output in ("so far\n", "")
        caller.count(COMMANDS - 1)
        caller.count(COMMANDS, beside=True)
        assert len(caller.errors) <= 1
        expect_right(caller)


@given(
    stale=st.integers(0, 12),
    armed_after=st.integers(0, COMMANDS - 1),
    jobs=st.lists(st.sampled_from(("", "(sleep 0.02; echo noise) &", "sleep 0.05 &", "exit 0")), max_size=3),
)
@example(stale=1, armed_after=0, jobs=[])
@example(stale=0, armed_after=0, jobs=["sleep 0.05 &", "(sleep 0.02; echo noise) &"])
def what_a_shell_says_again_about_an_earlier_command_is_never_taken_for_a_later_one(
    stale: int, armed_after: int, jobs: list[str]
) -> None:
    with CommandCounter(StreamFault("repeat", None, stale), armed=False) as caller:
        for number in range(COMMANDS):
            if number == armed_after:
                caller.env.arm()
            if number < len(jobs):
                assert caller.call(lambda job=jobs[number]: caller.env.execute(job))  # type: ignore[misc]
            caller.count(number)
        caller.count(COMMANDS, beside=True)
        expect_right(caller, whole=True)
        assert not caller.errors
