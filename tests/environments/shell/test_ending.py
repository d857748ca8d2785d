"""The end of commands with all their processes, wherever these are, and with no others."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from targets.local_shells import WAYS
from targets.processes import all_gone, processes_with, sleepers

from environments import BaseEnvironment, EnvironmentLostError
from environments.conformance.check import unique, wait_until
from environments.shell.dialect import commands
from environments.shell.pool import Control


def test_other_processes_of_the_machine_are_left_alone(bash_or_sh: BaseEnvironment) -> None:
    nowhere = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    for pty in (False, True):
        process = bash_or_sh.start("trap '' TERM; echo on; sleep 1000", pty=pty, grace=0.1)
        process.expect("on", 30)
        with subprocess.Popen(["sleep", "1000"], start_new_session=True, **nowhere) as other:
            process.kill()
            ended = other.poll()
            other.kill()
        assert ended is None


def test_a_time_out_that_ends_a_child_leaves_the_shell(env: BaseEnvironment) -> None:
    pid = env.execute("plain=1; array=(a b); umask 027; echo $$").output
    failed = []
    for command in (
        "sleep 1000\necho never",
        "f() { sleep 1000; echo never; }; f; echo never",
        "for ((;;)); do x=1; done; echo never",
        "(sleep 1000); echo never",
        "x=$(sleep 1000); echo never",
        "sleep 1000 | cat; echo never",
        "eval 'sleep 1000; echo never'; echo never",
        "trap 'echo D' DEBUG; sleep 1000; echo never",
    ):
        result = env.execute(command, timeout=0.1)
        env.execute("trap - DEBUG")
        after = env.execute("echo $$; echo $plain ${array[1]}; umask").output
        if not result.timed_out or "never" in result.output or after != f"{pid}1 b\n0027\n":
            failed.append((command, result, after))
    assert failed == []


def test_a_child_started_during_the_search_for_processes_gets_term(
    env: BaseEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without TERM the child would get KILL, and bash would print a message about KILL into the output."""
    looked = tmp_path / "looked"
    monkeypatch.setattr(commands, "_TABLE", f"{commands._TABLE}; touch {looked}; sleep .5")
    result = env.execute(f"until [ -e {looked} ]; do :; done; sleep 1000; echo never", timeout=0.1)
    assert result.timed_out
    assert result.output == ""


def test_usr1_is_no_end_of_a_command_but_a_signal_like_others(bash_or_sh: BaseEnvironment) -> None:
    for sent, code in (("USR1", 138), ("USR2", 140), ("HUP", 129)):
        result = bash_or_sh.execute(f"sh -c 'kill -{sent} $PPID; sleep .1'; echo second; exit 3", timeout=60)
        assert (result.output, result.exit_code) == ("", code)
        bash_or_sh.execute(f"trap 'echo mine' {sent}")
        result = bash_or_sh.execute(f"sh -c 'kill -{sent} $PPID; sleep .1'; echo second", timeout=60)
        assert result.output == "mine\nsecond\n"
        bash_or_sh.execute(f"trap - {sent}")
    result = bash_or_sh.execute("sh -c 'kill -50 $PPID; sleep .1'; echo second; exit 3", timeout=60)
    assert (result.output, result.exit_code) == ("", 178)
    assert bash_or_sh.execute("set -o | grep -E 'trace +on'").output == ""


ON_TERM = (
    ("trap 'echo bye; exit' TERM; echo go; sleep 1000 & wait", "go\nbye\n"),
    ("trap 'echo bye' TERM; echo go; sleep 1000; echo never", "go\nbye\n"),
    ("trap 'sleep .2; echo bye' TERM; echo go; while :; do :; done", "go\nbye\n"),
    (
        "f() { trap 'echo \"it'\\''s\"\necho bye' TERM; echo go; sleep 1000; echo never; }; f; echo never",
        "go\nit's\nbye\n",
    ),
    ("set -e; trap 'echo bye' TERM; echo go; sleep 1000; echo never", "go\nbye\n"),
    ("trap 'echo bye; trap - TERM; kill 0' TERM; echo go; sleep 1000; echo never", "go\nbye\n"),
    ("set -o posix; trap 'echo bye' TERM; echo go; sleep 1000; echo never", "go\nbye\n"),
    ("trap 'echo never' USR1; echo go; sleep 1000; echo never", "go\n"),
)
"""Commands with a trap on TERM, and their output."""


def test_output_of_a_trap_on_term_is_kept(env: BaseEnvironment) -> None:
    failed = []
    for command, output in ON_TERM:
        with env.session(command[:20]) as session:
            session.execute("export KEPT=kept")
            result = session.execute(command, timeout=0.3)
            after = session.execute("trap - TERM; set +e +o posix; echo $KEPT").output
            if (result.output, result.timed_out, after) != (output, True, "kept\n"):
                failed.append((command, result, after))
    assert failed == []
    result = env.execute_oneshot(ON_TERM[0][0], timeout=0.3)
    assert result.output == "go\nbye\n"


def test_a_command_that_ignores_term_does_not_change_the_next(env: BaseEnvironment) -> None:
    assert env.execute("x=plain; trap '' TERM; while :; do :; done", timeout=0.2).timed_out
    assert env.execute("echo $x; trap -p TERM").output == "plain\n"


def test_a_process_that_ignores_term_is_ended_also_if_the_caller_leaves_meanwhile(
    bash_or_sh: BaseEnvironment,
) -> None:
    env, word = bash_or_sh, unique()
    stubborn = f"sh -c 'trap \"\" TERM; : {word}; while :; do sleep 0.1; done'"
    command = f"{stubborn} & sh -c 'trap \"echo ending; exit\" TERM; echo begun; while :; do sleep 0.1; done'"

    def interrupt_and_leave(text: str) -> None:
        if "begun" in text:
            is_running.append(env.session_of_execute.running)
            env.interrupt()
        if "ending" in text:
            wait_until(lambda: is_running[0].ended, 30)  # the grace of the process that ignores TERM has only begun
            raise LookupError

    is_running: list[Any] = []
    with pytest.raises(LookupError):
        env.execute(command, on_output=interrupt_and_leave)
    assert not processes_with(word)
    assert env.execute("echo on").output == "on\n"


DAEMON = "import subprocess; subprocess.Popen(['sleep', '{}'], env={{}}, close_fds=True, start_new_session=True)"
"""Starts a process without marker, without keepalive pipe and, once its parent has ended, without a known parent."""


def test_a_process_that_holds_only_the_commands_output_is_ended_and_one_of_an_earlier_command_is_not(
    env: BaseEnvironment, nap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = Control.run_with_code

    async def late(shells: Control, text: str, timeout: float = 10) -> tuple[str, int]:
        """Search for processes late, as on a loaded machine."""
        await asyncio.sleep(0.3 if "marked=" in text else 0)
        return await ask(shells, text, timeout)

    monkeypatch.setattr(Control, "run_with_code", late)
    earlier, later = f"{nap}1", f"{nap}2"
    env.execute(f'{sys.executable} -c "{DAEMON.format(earlier)}"')
    time.sleep(0.1)  # start times are known to a hundredth of a second
    assert env.execute(f'{sys.executable} -c "{DAEMON.format(later)}"; sleep 1000', timeout=1).timed_out
    assert not sleepers(later)
    assert sleepers(earlier)
    for process in sleepers(earlier):
        process.kill()


NO_DESCRIPTOR = "exec </dev/null >/dev/null 2>&1 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&- {}"


@pytest.mark.parametrize("goes_on", ["sleep 1000", "wait", "while :; do :; done"])
def test_a_child_of_the_shell_without_marker_is_ended_and_one_of_an_earlier_command_is_not(
    bash_or_sh: BaseEnvironment, nap: str, goes_on: str
) -> None:
    env = bash_or_sh
    bare = NO_DESCRIPTOR.format("29>&-" if env.execute("echo $BASH_VERSION").output.strip() else "")
    earlier, program, loop = f"{nap}1", f"{nap}2", f"{nap}3"
    left = f"(while :; do sleep {earlier}; done) >/dev/null 2>&1 &"
    for command in (f"({bare}; exec env -i sleep {program}) &", f"({bare}; while :; do env -i sleep {loop}; done) &"):
        env.execute(left)
        assert env.execute(f"{command} {goes_on}", timeout=0.5).timed_out
        assert env.execute_oneshot(f"{command} {goes_on}", timeout=0.5).timed_out
        assert not sleepers(program)
        assert not sleepers(loop)
    assert len(sleepers(earlier)) == 2


BARE = (
    "/bin/bash -c 'env -i setsid sleep {} <&- >&- 2>&- 6>&- 29>&- &'",
    f'{sys.executable} -c "{DAEMON}" </dev/null >/dev/null 2>&1',
    "/bin/bash -c 'cd /; ulimit -S -x 7; for i in 1 2; do env -i setsid sleep {} <&- >&- 2>&- 6>&- 29>&- & done'",
)
"""Commands that leave processes without marker, without keepalive pipe and without a known parent."""


@pytest.mark.parametrize("make", WAYS)
def test_processes_without_marker_that_commands_left_are_ended_by_cleanup(
    tmp_path: Path, nap: str, make: Callable[[Path], BaseEnvironment]
) -> None:
    other = subprocess.Popen(["env", "-i", "sleep", nap], start_new_session=True)
    with contextlib.ExitStack() as end, make(tmp_path) as env:
        end.callback(other.wait)
        end.callback(other.kill)
        for command in BARE:
            env.execute(command.format(nap))
            env.execute_oneshot(command.format(nap))
            env.start(command.format(nap)).wait(60)
        with env.session("other") as session:
            session.execute(BARE[0].format(nap))
        assert wait_until(lambda: len(sleepers(nap)) == 14, 30)
        env.cleanup()
        assert wait_until(lambda: [process.pid for process in sleepers(nap)] == [other.pid], 2)


def test_a_group_that_is_signalled_is_the_commands_own_end(env: BaseEnvironment) -> None:
    for run in (env.execute, env.execute_oneshot):
        assert run("kill 0; sleep 5").exit_code == 143
    assert env.start("kill 0; sleep 5").wait(30) == 143
    assert env.start("kill 0; sleep 5", stdin="none").wait(30) == 143
    assert env.start("IFS=0; exit 10").wait(30) == 10
    for run in (env.execute, env.execute_oneshot):
        assert run("echo on").output == "on\n"


def test_a_shell_that_is_killed_from_outside_is_lost_and_its_command_ended(env: BaseEnvironment) -> None:
    word = unique()

    def kill(pid: str) -> None:
        os.kill(int(pid), signal.SIGKILL)

    with pytest.raises(EnvironmentLostError, match="killed"):
        env.execute(f"exec -a {word} sleep 1000 & echo $$; wait", timeout=60, on_output=kill)
    assert all_gone(word)
    assert env.execute("echo on").output == "on\n"
