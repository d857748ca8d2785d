"""Lifecycle of an environment: loss, cleanup, the end of the program, and forks."""

from __future__ import annotations

import gc
import subprocess
import sys
import textwrap
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from targets.plain_local import PlainLocal
from targets.processes import all_gone, processes_with
from targets.threads import running_threads

from environments import BaseEnvironment, EnvironmentLostError, TerminalError, create_environment, load_settings
from environments.conformance.check import unique, wait_until
from environments.loop import current, in_worker, run
from environments.shell import pool
from environments.shell.dialect.boot import ShellSpec
from environments.shell.shell import Shell

ROOT = Path(__file__).parents[3]


def _run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        cwd=ROOT,
    )


def _descriptors() -> int:
    current()  # starts the loop thread, whose descriptors stay open
    return len(list(Path("/proc/self/fd").iterdir()))


class Counted(PlainLocal):
    """An environment that counts the starts of its target."""

    starts = 0

    def start_target(self) -> None:
        self.starts += 1

    def stop_target(self) -> None:
        pass


class Staying(Counted):
    """An environment that counts starts, and whose target outlives its link."""

    target_stays = True


@pytest.fixture
def counted() -> Iterator[Counted]:
    with Counted(load_settings("local")) as env:
        yield env


def test_an_unreported_loss_is_raised_once_by_the_next_command(counted: Counted) -> None:
    life = counted.life
    counted.ensure_started()
    life.postpone(life.lost("it went away"))
    with pytest.raises(EnvironmentLostError, match="went away") as raised:
        counted.ensure_started()
    life.postpone(raised.value)  # by another thread, without a caller
    with pytest.raises(EnvironmentLostError, match="went away"):
        counted.ensure_started()
    assert counted.ensure_started() == counted.starts == 2


def test_an_unreported_loss_is_dropped_where_the_target_stays() -> None:
    with Staying(load_settings("local")) as env:
        env.ensure_started()
        env.life.postpone(env.life.lost("its link was dropped"))
        assert env.ensure_started() == 2


def test_a_reported_loss_is_not_raised_again(counted: Counted) -> None:
    life = counted.life
    counted.ensure_started()
    in_background = life.lost("gone")
    life.postpone(in_background)
    life.lost("gone")
    assert counted.ensure_started() == 2
    life.postpone(life.lost("gone", 1))  # late
    assert counted.ensure_started() == 2
    error = life.lost("gone")
    life.postpone(error)
    life.note_raised(error)
    assert counted.ensure_started() == 3


def test_cleanup_that_races_with_a_start_leaves_nothing(tmp_path: Path) -> None:
    word = unique()
    threads, descriptors = running_threads(), _descriptors()
    outcomes: set[str] = set()
    for number in range(15):
        env = create_environment("local", cwd=str(tmp_path))

        def run(env: BaseEnvironment = env) -> None:
            try:
                result = env.execute(f"exec -a {word} sleep 1000")
            except TerminalError as error:
                outcomes.add("refused" if "cleaned up" in str(error) else str(error))
            else:
                outcomes.add("interrupted" if (result.interrupted, result.exit_code) == (True, 130) else str(result))

        thread = threading.Thread(target=run)
        thread.start()
        threading.Event().wait(number * 0.001)
        env.cleanup()
        thread.join(30)
        assert not thread.is_alive()
    assert outcomes <= {"refused", "interrupted"}
    assert all_gone(word)
    assert running_threads() == threads
    assert _descriptors() == descriptors


def test_cleanup_interrupts_a_running_command_and_fails_a_waiting_one(env: BaseEnvironment) -> None:
    outcomes: list[object] = []

    def run(command: str) -> None:
        try:
            outcomes.append(env.execute(command))
        except TerminalError as error:
            outcomes.append(error)

    began = threading.Event()
    first = threading.Thread(
        target=lambda: outcomes.append(env.execute("echo so far; sleep 1000", on_output=lambda _: began.set()))
    )
    first.start()
    assert began.wait(30)
    second = threading.Thread(target=run, args=("echo never",))
    second.start()
    wait_until(lambda: False, 0.2)
    env.cleanup()
    first.join(30)
    second.join(30)
    results = {type(outcome).__name__: outcome for outcome in outcomes}
    result = results["CommandResult"]
    assert (result.interrupted, result.exit_code, result.output) == (True, 130, "so far\n")
    assert "cleaned up" in str(results["TerminalError"])
    with pytest.raises(TerminalError, match="cleaned up"):
        env.execute_oneshot("true")


def test_many_processes_that_ignore_term_are_ended_in_parallel_by_concurrent_cleanups(env: BaseEnvironment) -> None:
    word = unique()
    for _ in range(12):
        env.start(f"trap '' TERM; sh -c ': {word}; while :; do sleep 100; done'")
    assert wait_until(lambda: len(processes_with(word)) >= 12)
    threads = [
        threading.Thread(target=env.cleanup) for _ in range(4)
    ]  # one cleanup ends the processes, all wait for it
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not any(thread.is_alive() for thread in threads)
    assert wait_until(lambda: not processes_with(word), 2)


def test_an_environment_that_is_dropped_is_cleaned_up_with_a_warning(tmp_path: Path) -> None:
    word = unique()
    gc.collect()
    descriptors = _descriptors()
    env = create_environment("local", cwd=str(tmp_path))
    env.execute(f"exec -a {word} sleep 1000 >/dev/null 2>&1 &")
    env.execute("true")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del env
        # A thread may hold the environment for a moment. The collector may also warn about other tests.
        assert wait_until(lambda: gc.collect() >= 0 and any("'local'" in str(each.message) for each in caught))
    assert [each.category for each in caught if "'local'" in str(each.message)] == [ResourceWarning]
    assert all_gone(word)
    assert wait_until(lambda: _descriptors() == descriptors), "the loop thread frees them when all is ended"


def test_a_program_that_ends_without_cleanup_leaves_nothing() -> None:
    word = unique()
    done = _run(f"""
        from environments import create_environment
        env = create_environment("local")
        env.execute("exec -a {word} sleep 1000 >/dev/null 2>&1 &")
        print(env.internal.scratch_directory())
    """)
    assert done.returncode == 0, done.stderr
    assert all_gone(word)
    assert not Path(done.stdout.strip()).exists()


def test_a_forked_child_ends_nothing_of_its_parents() -> None:
    done = _run("""
        import gc, os, sys, warnings
        warnings.simplefilter("ignore", DeprecationWarning)
        from environments import TerminalError, create_environment
        from environments.tasks import get_environment
        env = create_environment("local")
        env.execute("export A=1; plain=2; sleep 1000 >/dev/null 2>&1 & echo $! >/dev/null")
        process = env.start("cat")
        managed = get_environment("task")
        managed.execute("kept=3")
        if (child := os.fork()) == 0:
            for use in (lambda: env.execute("true"), lambda: env.execute_oneshot("true"), lambda: env.start("true"),
                        process.kill, lambda: process.write("x"), lambda: env.write_bytes("x", b""), env.interrupt):
                try:
                    use()
                except TerminalError as error:
                    assert "fork" in str(error), error
                else:
                    os._exit(3)
            env.cleanup()
            own = get_environment("task")
            if own is managed or own.execute("echo own").output != "own\\n":
                os._exit(4)
            own.cleanup()
            del process, managed
            del env; gc.collect(); sys.exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert env.execute("echo $A $plain; kill -0 $!; echo $?").output == "1 2\\n0\\n"
        assert managed.execute("echo $kept").output == "3\\n"
        process.write("still here")
        process.close_stdin()
        assert process.wait(10) == 0 and process.read() == "still here"
        env.cleanup()
        managed.cleanup()
        print("fine")
    """)
    assert (done.stdout, done.returncode) == ("fine\n", 0), done.stderr


def test_a_shell_that_opens_after_the_cleanup_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    come, ended = threading.Event(), threading.Event()
    errors: list[BaseException] = []
    env = create_environment("local")
    env.prepare()
    open_shell = pool.open_shell

    async def late(*arguments: Any) -> Shell:
        opened = await open_shell(*arguments)
        if not come.is_set():  # later shells are for the cleanup itself
            come.set()
            assert await in_worker(ended.wait, 60)
        return opened

    def ask() -> None:
        try:
            run(lambda _: env.shells.open(ShellSpec(env.shells.next_marker()), internal=True))
        except TerminalError as error:
            errors.append(error)

    before = _descriptors()
    monkeypatch.setattr(pool, "open_shell", late)
    thread = threading.Thread(target=ask)
    thread.start()
    assert come.wait(60)
    env.cleanup()
    ended.set()
    thread.join(60)
    assert "cleaned up" in str(errors)
    assert _descriptors() < before
