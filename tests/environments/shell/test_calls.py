"""Arguments and interruption of commands, beyond the conformance checks."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

import pytest
from targets.signals import raising_at

from environments import (
    BaseEnvironment,
    CommandResult,
    DeniedError,
    create_environment,
    load_settings,
)
from environments.approvals import CommandRequest, Deny
from environments.approvals.policy import destructive
from environments.cancellation import CancelScope
from environments.conformance.check import wait_until
from environments.local.environment import LocalEnvironment


class TwoStreams(LocalEnvironment):
    """This machine, with a limit of two shells at once: the session's and another."""

    max_streams = 2


@pytest.fixture
def two_streams(tmp_path: Path) -> Iterator[BaseEnvironment]:
    with TwoStreams(load_settings("local", cwd=str(tmp_path))) as made:
        yield made


def test_paths_are_words_of_a_list(env: BaseEnvironment, tmp_path: Path) -> None:
    result = env.execute(("printf", "%s|", tmp_path, PurePosixPath("a b"), "\udcff"), binary=True)
    assert result.output_bytes == f"{tmp_path}|a b|".encode() + b"\xff|"


def test_a_list_is_judged_as_its_words(env: BaseEnvironment) -> None:
    seen: list[str] = []

    def before_command(request: CommandRequest) -> Deny | None:
        seen.append(request.command)
        reason = destructive(request.command, request.cwd)
        return Deny(reason) if reason else None

    env.gate.before_command = before_command
    for run in (env.execute, env.execute_oneshot, env.start):
        with pytest.raises(DeniedError, match="whole file system"):
            run(["rm", "-rf", "/"])
    assert env.execute(["echo", "rm -rf /"]).output == "rm -rf /\n"
    assert seen == ["rm -rf /"] * 3 + ["echo 'rm -rf /'"]


def test_a_rule_that_allows_a_command_allows_it_as_a_list(configure: Callable[[str], None], tmp_path: Path) -> None:
    configure("approvals: {commands: deny, allow: ['echo *']}")
    with create_environment("local", cwd=str(tmp_path)) as env:
        assert env.execute(["echo", "a", "b"]).output == "a b\n"
        with pytest.raises(DeniedError, match="no rule allows it"):
            env.execute(["uname"])


def test_bytes_above_the_cap_keep_their_head_and_tail(each_way: BaseEnvironment) -> None:
    command = "i=0; while [ $i -lt 10 ]; do head -c 65536 /dev/zero | tr '\\0' '\\377'; i=$((i+1)); done"
    for run in (each_way.execute, each_way.execute_oneshot):
        result = run(command, binary=True, max_output_bytes=100_001, timeout=100)
        assert result.output_bytes == b"\xff" * 100_001
        assert result.output == "\ufffd" * 100_001
        assert (result.omitted_bytes, result.omitted_at) == (10 * 65536 - 100_001, 50_000)


def test_a_cap_may_be_larger_than_that_of_the_settings(tmp_path: Path) -> None:
    with create_environment("local", cwd=str(tmp_path), max_output_bytes=10) as env:
        command = f"head -c {100_000} /dev/zero | tr '\\0' x"
        assert env.execute(command, max_output_bytes=100_000).output == "x" * 100_000
        assert env.execute(command).omitted_bytes == 99_990
        assert "x" * 1000 in env.execute_oneshot(command, max_output_bytes=1001).output


def test_a_callback_may_take_the_channel_by_name_or_not_at_all(env: BaseEnvironment) -> None:
    received: list[object] = []

    def by_name(piece: str, *, channel: str = "?") -> None:
        received.append((piece, channel))

    for listen in (by_name, received.append, lambda piece, unused=None: received.append((piece, unused))):
        env.execute("echo a; sleep 0.1; echo b >&2", stderr="separate", on_output=listen)
    assert received == [("a\n", "stdout"), ("b\n", "stderr"), "a\n", "b\n", ("a\n", None), ("b\n", None)]


@pytest.mark.parametrize("by", ["event", "scope"])
def test_a_wait_for_one_of_few_shells_can_be_interrupted(two_streams: BaseEnvironment, by: str) -> None:
    holder = two_streams.start("read -r word")
    event, scope, results = threading.Event(), CancelScope(), list[CommandResult]()

    def work() -> None:
        with scope.active():
            results.append(two_streams.execute_oneshot("echo ran", interrupt=event if by == "event" else None))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(0.3)
    assert thread.is_alive()
    event.set()
    scope.cancel()
    thread.join(30)
    assert [(result.interrupted, result.output) for result in results] == [(True, "")]
    holder.kill()
    assert two_streams.execute_oneshot("echo works").output == "works\n"


class Alarm(Exception):
    """Raised by the signal handler."""


def start_and_wait(env: BaseEnvironment) -> None:
    env.start("sleep 0.03").wait()


@pytest.mark.parametrize(
    "call", [lambda env: env.execute_oneshot("sleep 0.03"), start_and_wait], ids=["execute_oneshot", "start"]
)
def test_an_exception_at_any_moment_leaks_none_of_few_shells(
    two_streams: BaseEnvironment, call: Callable[[BaseEnvironment], object]
) -> None:
    call(two_streams)
    with raising_at(signal.SIGALRM, Alarm):
        for milliseconds in range(1, 50, 3):
            with contextlib.suppress(Alarm):
                signal.setitimer(signal.ITIMER_REAL, milliseconds / 1000)
                call(two_streams)
                signal.setitimer(signal.ITIMER_REAL, 0)  # in the block: the alarm may come just before
            assert two_streams.execute_oneshot("echo on", timeout=60).output == "on\n"


def test_a_process_of_a_scope_goes_on_when_that_is_cancelled(env: BaseEnvironment) -> None:
    scope = CancelScope()
    with scope.active():
        process = env.start("read -r word; echo got $word")
    scope.cancel()
    process.write("it\n")
    assert process.expect("got it", 30) == "got it"
    assert wait_until(lambda: not process.running)
