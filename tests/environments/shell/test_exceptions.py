"""Exceptions in the caller's thread, at any moment, do not change the next command."""

from __future__ import annotations

import _thread
import ctypes
import os
import signal
import threading
import time
from functools import partial
from operator import call
from pathlib import Path
from types import SimpleNamespace

import pytest
from targets.signals import raising_at

from environments import BaseEnvironment, create_environment, loop


class Alarm(Exception):
    """Raised by the signal handler."""


def test_an_error_of_the_callback_that_looks_like_a_dead_shells_runs_nothing_twice(
    env: BaseEnvironment, tmp_path: Path
) -> None:
    def fail(_: str) -> None:
        raise BrokenPipeError

    for run in (env.execute, env.execute_oneshot):
        with pytest.raises(BrokenPipeError):
            run(f"echo ran >>{tmp_path}/ran; echo out", on_output=fail)
    assert (tmp_path / "ran").read_text() == "ran\nran\n"
    assert env.execute("echo on").output == "on\n"


def test_a_signal_that_raises_while_a_command_runs_ends_it(env: BaseEnvironment) -> None:
    with raising_at(signal.SIGUSR1, Alarm), pytest.raises(Alarm):
        env.execute(f"echo $$ >pid; kill -USR1 {os.getpid()}; sleep 1000; echo never >after")
    assert env.execute("echo y; ls").output == "y\npid\n"
    assert not env.busy


class LateLock:
    """A lock with a signal just before the main thread's wait. Python handles the signal only after the wait.

    The signal comes once after `armed` is set. In other threads the lock is a plain lock.
    """

    def __init__(self, armed: threading.Event) -> None:
        self._armed = armed
        self._lock = _thread.allocate_lock()
        self.release, self.locked = self._lock.release, self._lock.locked

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        # A signal raised in another thread would be handled wherever the main thread is.
        is_elsewhere = threading.current_thread() is not threading.main_thread()
        if is_elsewhere or not self._armed.is_set() or not self._lock.locked():
            return self._lock.acquire(blocking, timeout)
        self._armed.clear()
        # Both are C functions, and `map` calls them without a check for signals in between.
        ring = partial(ctypes.PyDLL(None)["raise"], signal.SIGUSR1)
        return list(map(call, (ring, partial(self._lock.acquire, blocking, timeout))))[1]


def test_a_signal_that_comes_just_before_a_wait_in_the_kernel_ends_the_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    armed = threading.Event()
    module = SimpleNamespace(**{**vars(_thread), "allocate_lock": lambda: LateLock(armed)})
    with raising_at(signal.SIGUSR1, Alarm), create_environment("local") as env:
        env.prepare()
        monkeypatch.setattr(loop, "_thread", module)
        for execute in (env.execute, env.execute_oneshot):
            armed.set()
            with pytest.raises(Alarm):
                execute(f"sleep 1000 && echo ran >>{tmp_path}/ran")
            assert not armed.is_set()
            assert execute("echo on").output == "on\n"
    assert not list(tmp_path.iterdir())


def test_a_time_out_above_the_kernels_maximum_is_no_time_out(env: BaseEnvironment) -> None:
    for timeout in (3e6, 1e300):
        assert env.execute("echo a", timeout=timeout).output == "a\n"
        assert env.execute_oneshot("sleep 0.1; echo b", timeout=timeout).output == "b\n"


def test_a_fatal_option_in_one_command_does_not_end_the_next(env: BaseEnvironment) -> None:
    env.execute("set -e; mkdir d")
    assert env.execute("rmdir nosuch", cwd="/tmp").exit_code != 0
    assert env.execute("echo here; pwd").output.startswith("here\n")


def test_a_callback_that_waits_for_another_thread_of_the_session_does_not_mix_results(env: BaseEnvironment) -> None:
    results: list[str] = []
    other = threading.Thread(target=lambda: results.append(env.execute("echo second").output))

    def start(text: str) -> None:
        if not other.is_alive():
            other.start()
            time.sleep(0.05)

    assert env.execute("echo first", on_output=start).output == "first\n"
    other.join()
    assert results == ["second\n"]
