"""The end of scripts: their unmarked processes, and a cleanup of the environment meanwhile."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from targets.plain_local import RemotePlainLocal
from targets.processes import all_gone

from code_execution import execute_code
from code_execution.limits import TransportName
from code_execution.start import PythonProcess
from environments import BaseEnvironment, EnvironmentLostError, create_environment, load_settings
from environments.conformance.check import wait_until
from rpc import file_queue

SHEDS_ALL = """
import os, sys, time
path = sys.argv[1]
if not os.fork():
    os.setsid()
    if os.fork():
        os._exit(0)
    os.closerange(3, 400)
    null = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(null, number)
    beat = 'trap "" TERM; while :; do echo >>%s; sleep .1; done' % path
    os.execve("/bin/sh", ["sh", "-c", beat], {"PATH": os.environ["PATH"]})
while not os.path.exists(path):
    time.sleep(.01)
"""
"""Leaves a daemon without the script's environment variables, file descriptors, session and parent."""


@pytest.fixture
def env() -> Iterator[BaseEnvironment]:
    with create_environment("local") as made:
        yield made


ALWAYS_NEW = """
import os, sys, time
if not os.fork():
    end = time.time() + 30
    while time.time() < end:
        if os.fork():
            os._exit(0)
        os.setsid()
        os.close(os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT))
        time.sleep(.003)
while not os.path.exists(sys.argv[1]):
    time.sleep(.01)
time.sleep(.1)
"""
"""Leaves a process that forks and exits, for a limited time, so that a failed test does not fail others."""


def check_ended(beat: Path) -> None:
    """Check that a removed file is not made again."""
    beat.unlink()
    time.sleep(0.3)
    assert not beat.exists()


def check_that_scripts_end(env: BaseEnvironment, beat: Path, transport: TransportName) -> None:
    for _ in range(3):
        assert execute_code(ALWAYS_NEW, env=env, tools={}, argv=[str(beat)], transport=transport).status == "success"
        check_ended(beat)


@pytest.mark.parametrize("transport", ["socket", "relay"])
def test_a_process_that_forks_and_exits_without_end_ends_with_its_script(
    env: BaseEnvironment, tmp_path: Path, transport: TransportName
) -> None:
    check_that_scripts_end(env, tmp_path / "beat", transport)


FORKS = "for _ in 1 2 3; do while :; do /bin/true; done & done; wait"


def test_a_process_that_forks_and_exits_without_end_ends_with_its_script_while_others_fork(
    env: BaseEnvironment, tmp_path: Path
) -> None:
    """A search up to the last process id of its beginning would miss the process's next id."""
    with subprocess.Popen(["bash", "-c", FORKS], start_new_session=True) as others:
        try:
            check_that_scripts_end(env, tmp_path / "beat", "socket")
        finally:
            os.killpg(others.pid, signal.SIGKILL)


def test_a_process_that_forks_and_exits_without_end_ends_with_its_command(env: BaseEnvironment, tmp_path: Path) -> None:
    beat = tmp_path / "beat"
    (tmp_path / "always_new.py").write_text(ALWAYS_NEW + "time.sleep(1000)")
    command = f"{sys.executable} {tmp_path}/always_new.py {beat}"
    assert env.execute(command, timeout=1).timed_out
    check_ended(beat)
    tools = {"run": lambda: env.execute(f"{command} & sleep .3").ok}
    execute_code("import hermes_tools\nhermes_tools.run()", env=env, tools=tools)
    check_ended(beat)


KILLS_ITS_KEEPER = """
with open(f"/proc/{os.getppid()}/comm") as file: is_python = "python" in file.read()
assert is_python
os.kill(os.getppid(), 9)
"""


@pytest.mark.parametrize(
    ("then", "transport"),
    [("", "socket"), ("time.sleep(1000)", "socket"), ("", "relay"), (KILLS_ITS_KEEPER, "relay")],
)
def test_unmarked_processes_of_a_script_end_with_it(
    env: BaseEnvironment, tmp_path: Path, then: str, transport: TransportName
) -> None:
    path = tmp_path / "beats"
    execute_code(SHEDS_ALL + then, env=env, tools={}, argv=[str(path)], timeout=3, transport=transport)
    size = path.stat().st_size
    time.sleep(0.5)  # five beats
    assert path.stat().st_size == size


def test_the_wait_for_calls_in_files_ends_with_the_directory_that_they_are_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The supervisor removes the directory before the collector is told of the script's end."""
    monkeypatch.setattr(file_queue, "CLOSE_GRACE_SECONDS", 60)
    with RemotePlainLocal(load_settings("local", cwd=str(tmp_path))) as env:
        for code in ("print(1)", "import hermes_tools; print(hermes_tools.one())"):
            for _ in range(3):
                assert execute_code(code, env=env, tools={"one": lambda: 1}, transport="file").output == "1\n"
    assert "did not end in time" not in caplog.text


SLEEPS = "import time; print('on', flush=True); time.sleep(1000)"
CALLS = "import hermes_tools\nwhile True: hermes_tools.on()"


@pytest.mark.parametrize("code", [SLEEPS, CALLS])
def test_cleanup_interrupts_a_script(env: BaseEnvironment, code: str, transport: TransportName) -> None:
    begun = threading.Event()
    thread = threading.Thread(target=lambda: (begun.wait(60), env.cleanup()))
    thread.start()
    result = execute_code(
        code,
        env=env,
        tools={"on": begun.set},
        on_output=lambda _: begun.set(),
        timeout=100,
        max_tool_calls=10**6,
        transport=transport,
    )
    thread.join()
    assert (result.status, result.exit_code) == ("interrupted", 130)


SAYS_WHAT_IT_HAS = """
import signal, sys, time
def end(*_):
    print("found 3 of 7", flush=True)
    print("not to the end", file=sys.stderr)
    time.sleep(0.3)
    sys.exit(print("and said so"))
signal.signal(signal.SIGTERM, end)
print("begun", flush=True)
time.sleep(1000)
"""


@pytest.mark.parametrize("how", ["timeout", "interrupted"])
def test_output_during_a_scripts_grace_is_in_its_result(
    env: BaseEnvironment, how: str, transport: TransportName
) -> None:
    pieces: list[str] = []
    interrupt = threading.Event()

    def shown(piece: str) -> None:
        pieces.append(piece)
        if how == "interrupted":
            interrupt.set()

    timeout = 2 if how == "timeout" else 100
    result = execute_code(
        SAYS_WHAT_IT_HAS, env=env, timeout=timeout, interrupt=interrupt, on_output=shown, transport=transport
    )
    assert result.status == how
    assert result.output.startswith("begun\nfound 3 of 7\nand said so\n--- stderr ---\nnot to the end\n")
    assert "".join(pieces) == "begun\nfound 3 of 7\nand said so\n"


def test_a_cleanup_interrupts_a_script_under_way_and_a_later_script_is_an_error(
    env: BaseEnvironment,
) -> None:
    timer = threading.Timer(0.05, env.cleanup)
    timer.start()
    result = execute_code("import time; time.sleep(1000)", env=env, tools={}, timeout=100)
    timer.join()
    assert result.status == "interrupted"
    assert execute_code("print(1)", env=env, tools={}).status == "error"


def test_an_error_of_the_process_behind_the_time_out_is_no_fault_of_the_loop(
    env: BaseEnvironment, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ended = PythonProcess.ended

    async def ends_badly(process: PythonProcess) -> int:
        await ended(process)
        raise EnvironmentLostError("no process can be listed")

    monkeypatch.setattr(PythonProcess, "ended", ends_badly)
    assert execute_code("import time; time.sleep(60)", env=env, timeout=0.3).status == "timeout"
    gc.collect()
    assert env.execute("echo goes on").output == "goes on\n"
    assert "met a fault" not in caplog.text


def test_a_late_end_is_logged_once_with_its_cause(
    env: BaseEnvironment, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, nap: str
) -> None:
    """On a loaded machine, a script's processes may be found late. The call ends in time all the same."""
    goes_on, ended = threading.Event(), threading.Event()

    def hunt(marker: str, brand: str | None) -> None:
        goes_on.wait(60)
        ended.set()

    monkeypatch.setattr(env, "hunt", hunt)
    monkeypatch.setattr("code_execution.run.ENDING_LIMIT", 1.0)
    code = f"import subprocess, time\nsubprocess.Popen(['sleep', '{nap}'])\nprint('on', flush=True)\ntime.sleep(1000)"
    result = execute_code(code, env=env, tools={}, timeout=3)
    assert result.status == "timeout"
    told = [record.getMessage() for record in caplog.records if "did not end in time" in record.getMessage()]
    goes_on.set()
    assert ended.wait(60)
    assert told == ["a script did not end in time; ending of its processes continues in the background"]
    assert wait_until(lambda: all_gone(nap), 60)
