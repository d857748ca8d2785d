"""Ending commands: whatever they print, however many processes they have, and wherever those go."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import psutil
import pytest
from targets.processes import all_gone, having

from environments import BaseEnvironment, EnvironmentLostError
from environments.conformance.check import unique, wait_until
from environments.shell.process_tree import ProcessTree


def test_a_command_times_out_although_output_keeps_arriving_and_its_reader_is_slow(env: BaseEnvironment) -> None:
    began = time.monotonic()
    result = env.execute("timeout 60 yes", timeout=1, on_output=lambda _: time.sleep(0.01))
    assert result.timed_out
    assert result.exit_code == 124
    assert time.monotonic() - began < 50  # it would otherwise take its 60 s, on any machine


@pytest.mark.parametrize("run", ["execute", "execute_oneshot"])
def test_an_endless_printer_is_ended(env: BaseEnvironment, run: str) -> None:
    assert getattr(env, run)("yes", timeout=0.5).timed_out
    assert getattr(env, run)("while :; do echo x; done", timeout=0.5).timed_out
    assert env.execute("echo on").output == "on\n"


def test_what_else_runs_on_the_machine_is_left_alone(each_way: BaseEnvironment) -> None:
    nowhere = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    for pty in [False, True] if each_way.capabilities.pty else [False]:
        process = each_way.start("trap '' TERM; echo on; sleep 1000", pty=pty, grace=0.1)
        process.expect("on", 30)
        with subprocess.Popen(["sleep", "1000"], start_new_session=True, **nowhere) as other:
            process.kill()
            ended = other.poll()
            other.kill()
        assert ended is None


def test_a_time_out_that_ends_a_child_leaves_the_shell(env: BaseEnvironment) -> None:
    pid = env.execute("plain=1; array=(a b); umask 027; echo $$").output
    for command in (
        "sleep 1000; echo never",
        "sleep 1000\necho never",
        "f() { sleep 1000; echo never; }; f; echo never",
        "while :; do sleep 0.01; done; echo never",
        "while :; do :; done; echo never",
        "for ((;;)); do x=1; done; echo never",
        "(sleep 1000); echo never",
        "x=$(sleep 1000); echo never",
        "sleep 1000 | cat; echo never",
        "eval 'sleep 1000; echo never'; echo never",
        "trap 'echo D' DEBUG; sleep 1000; echo never",
    ):
        result = env.execute(command, timeout=0.3)
        assert result.timed_out
        assert "never" not in result.output
        env.execute("trap - DEBUG")
        assert env.execute("echo $$; echo $plain ${array[1]}; umask").output == f"{pid}1 b\n0027\n"


def test_what_looks_for_processes_may_be_killed(env: BaseEnvironment, monkeypatch: pytest.MonkeyPatch) -> None:
    nap = f"{random.uniform(50_000, 100_000):.6f}"
    asked: list[str] = []
    ask = ProcessTree._ask

    def killed_at_first(tree: ProcessTree, text: str, timeout: float) -> str:
        asked.append(text)
        return ask(tree, f"sh -c 'kill -KILL $PPID'\n{text}" if len(asked) == 1 else text, timeout)

    monkeypatch.setattr(ProcessTree, "_ask", killed_at_first)
    assert env.execute(f"sleep {nap} & sleep {nap}", timeout=0.5).timed_out
    assert asked[1] == asked[0]
    assert not sleeping(nap)


DAEMON = "import subprocess; subprocess.Popen(['sleep', '{}'], env={{}}, close_fds=True, start_new_session=True)"
"""Starts a process without our marker, without our leash and, as its parent ends, without a parent of ours."""


def test_a_process_that_has_only_the_commands_output_left_is_ended_and_that_of_an_earlier_one_is_not(
    env: BaseEnvironment,
) -> None:
    earlier, later = (f"{random.uniform(50_000, 100_000):.6f}" for _ in range(2))
    env.execute(f'{sys.executable} -c "{DAEMON.format(earlier)}"')
    time.sleep(0.1)  # by its time of birth it is told from others to a hundredth of a second
    assert env.execute(f'{sys.executable} -c "{DAEMON.format(later)}"; sleep 1000', timeout=1).timed_out
    assert not sleeping(later)
    assert sleeping(earlier)
    for process in sleeping(earlier):
        process.kill()


def sleeping(seconds: str) -> list[psutil.Process]:
    return [process for process in psutil.process_iter(["cmdline"]) if process.info["cmdline"] == ["sleep", seconds]]


def test_five_thousand_processes_are_ended(env: BaseEnvironment) -> None:
    word = unique()
    started = threading.Event()
    command = f"for i in $(seq 5000); do exec -a {word} sleep 1000 & done; echo started; wait"
    result = env.execute(command, timeout=100, on_output=lambda _: started.set(), interrupt=started)
    assert result.interrupted
    assert result.survivors == ()
    assert wait_until(lambda: not having(word), 2)


HOPPER = """
import os, sys, time
while True:
    if os.fork():
        os._exit(0)
    with open(sys.argv[1], "a") as trace:
        trace.write("x")
    time.sleep(0.005)
"""


def test_a_process_that_forks_and_exits_without_end_is_ended_or_told_of(env: BaseEnvironment, tmp_path: Path) -> None:
    hopper, trace = tmp_path / "hopper.py", tmp_path / "trace"
    hopper.write_text(HOPPER)
    pid = env.execute("kept=1; echo $$").output.strip()
    try:
        result = env.execute(f"{sys.executable} -IS {hopper} {trace}; sleep 1000", timeout=1)
        assert result.timed_out
        assert not result.survivors
        size = trace.stat().st_size
        time.sleep(1)
        assert trace.stat().st_size == size > 0
        assert env.execute("echo $$ $kept").output == f"{pid} 1\n"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(int(pid), signal.SIGKILL)  # else it would go on for ever


@pytest.mark.parametrize("failures", [1, 1000])
def test_a_command_is_ended_where_no_thread_can_be_started_for_it(
    env: BaseEnvironment, failures: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, left = threading.Thread.start, [failures]

    def start_seldom(thread: threading.Thread) -> None:
        if thread.name == "hermes-end-command" and left[0] > 0:
            left[0] -= 1
            raise RuntimeError("can't start new thread")
        start(thread)

    env.execute("export kept=1")
    monkeypatch.setattr(threading.Thread, "start", start_seldom)
    word = unique()
    if failures == 1:
        assert env.execute(f"exec -a {word} sleep 1000", timeout=0.5).timed_out
    else:
        with pytest.raises(EnvironmentLostError, match="no thread is left"):
            env.execute(f"(exec -a {word} sleep 1000); :", timeout=0.5)
    assert wait_until(lambda: not having(word), 2)
    assert env.execute("echo $kept").output == "1\n"


def test_an_environment_within_a_command_ends_with_it(env: BaseEnvironment, tmp_path: Path) -> None:
    word = unique()
    inner = tmp_path / "inner.py"
    inner.write_text(
        textwrap.dedent(f"""
        from environments import create_environment
        env = create_environment("local")
        env.start("exec -a {word} sleep 1000")
        env.execute("trap '' TERM; exec -a {word} sleep 1000; :")
        """)
    )
    result = env.execute(f"cd {Path(__file__).parents[3]}; {sys.executable} {inner}", timeout=3)
    assert result.timed_out
    assert wait_until(lambda: not having(word), 2)


@pytest.mark.parametrize("run", ["execute", "execute_oneshot"])
def test_a_group_that_is_signalled_is_the_commands_own_end(env: BaseEnvironment, run: str) -> None:
    assert getattr(env, run)("kill 0; sleep 5").exit_code == 143
    assert env.execute("echo on").output == "on\n"


def test_a_background_process_that_signals_its_group_says_so(env: BaseEnvironment) -> None:
    assert env.start("kill 0; sleep 5").wait(30) == 143
    assert env.start("kill 0; sleep 5", stdin="none").wait(30) == 143
    assert env.start("IFS=0; exit 10").wait(30) == 10
    assert env.execute_oneshot("echo on").output == "on\n"


def test_a_shell_that_is_killed_from_outside_is_lost_and_its_command_ended(env: BaseEnvironment) -> None:
    word = unique()
    pid = int(env.execute("echo $$").output)
    process = subprocess.Popen(["sh", "-c", f"sleep 0.5; kill -9 {pid}"])
    with pytest.raises(EnvironmentLostError, match="killed"):
        env.execute(f"exec -a {word} sleep 1000 & wait", timeout=60)
    process.wait()
    assert all_gone(word)
    assert env.execute("echo on").output == "on\n"


def test_a_command_is_ended_although_no_descriptor_is_to_be_had(tmp_path: Path) -> None:
    program = textwrap.dedent("""
        import os, resource
        from environments import create_environment
        with create_environment("local") as env:
            env.execute("true"); env.execute_oneshot("true")
            env._account.control.await_reserve()
            soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.setrlimit(resource.RLIMIT_NOFILE, (200, hard))
            held = []
            try:
                while True: held.append(os.open("/dev/null", os.O_RDONLY))
            except OSError:
                pass
            result = env.execute("sleep 1000", timeout=0.5)
            print(result.timed_out, env.execute("echo on").output)
            for descriptor in held: os.close(descriptor)
    """)
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=Path(__file__).parents[3],
    )
    assert done.stdout == "True on\n\n", done.stderr


def test_what_could_not_be_ended_is_said(env: BaseEnvironment, monkeypatch: pytest.MonkeyPatch) -> None:
    from environments.shell import process_tree

    def harmless(signal: str, targets: object) -> str:
        return ":"

    look = process_tree.look
    monkeypatch.setattr(process_tree, "look", lambda *args, **kwargs: look(*args, **{**kwargs, "signal": ""}))
    monkeypatch.setattr(process_tree, "signalling", harmless)
    monkeypatch.setattr(process_tree, "KILL_LIMIT", 0.2)
    result = env.execute("sleep 600 & echo $!; wait", timeout=1.5)
    assert result.survivors == (int(result.output),)
    psutil.Process(result.survivors[0]).kill()
