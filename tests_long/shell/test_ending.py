"""The end of commands: very many processes, fork bombs, and faults during the kill."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from targets.local_shells import local
from targets.processes import processes_with

from environments import BaseEnvironment
from environments.conformance.check import unique, wait_until

ROOT = Path(__file__).parents[2]


@pytest.fixture
def env(tmp_path: Path) -> Iterator[BaseEnvironment]:
    with local(tmp_path) as made:
        yield made


def test_two_thousand_processes_are_ended(env: BaseEnvironment) -> None:
    word = unique()
    started = threading.Event()
    command = f"for i in $(seq 2000); do exec -a {word} sleep 1000 & done; echo started; wait"
    result = env.execute(command, timeout=100, on_output=lambda _: started.set(), interrupt=started)
    assert result.interrupted
    assert result.survivors == ()
    assert wait_until(lambda: not processes_with(word), 2)


HOPPER = """
import os, sys, time
while True:
    if os.fork():
        os._exit(0)
    with open(sys.argv[1], "a") as trace:
        trace.write("x")
    time.sleep(0.005)
"""


def test_a_process_that_forks_and_exits_without_end_is_ended_or_reported(env: BaseEnvironment, tmp_path: Path) -> None:
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
            os.killpg(int(pid), signal.SIGKILL)  # otherwise the process would run for ever


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
    result = env.execute(f"cd {ROOT}; {sys.executable} {inner}", timeout=3)
    assert result.timed_out
    assert wait_until(lambda: not processes_with(word), 2)


def test_a_command_is_ended_without_a_free_descriptor(tmp_path: Path) -> None:
    program = textwrap.dedent("""
        import os, resource
        from environments import create_environment
        with create_environment("local") as env:
            env.execute("true"); env.execute_oneshot("true")
            env.execute_oneshot("sleep 0.5")
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
        cwd=ROOT,
    )
    assert done.stdout == "True on\n\n", done.stderr


def test_survivors_are_reported(env: BaseEnvironment, monkeypatch: pytest.MonkeyPatch) -> None:
    from environments.shell import kill

    def harmless(signal: str, targets: object) -> str:
        return ":"

    look = kill.look
    monkeypatch.setattr(kill, "look", lambda *args, **kwargs: look(*args, **{**kwargs, "signal": ""}))
    monkeypatch.setattr(kill, "signalling", harmless)
    monkeypatch.setattr(kill, "KILL_LIMIT", 0.2)
    result = env.execute("sleep 600 & echo $!; wait", timeout=1.5)
    assert result.survivors == (int(result.output),)
    psutil.Process(result.survivors[0]).kill()
