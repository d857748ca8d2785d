"""The end of a transport when something does not end with it: each waits two seconds, and no longer."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import pytest
from targets.script_line import FaultyEnvironment

from environments import EnvironmentLostError
from environments.conformance.check import wait_until


@pytest.mark.parametrize("transport", ["unix", "relay", "file"])
def test_closing_does_not_wait_for_a_handler_that_runs_on(open_line, local_env, transport):
    started, release = threading.Event(), threading.Event()

    def stuck():
        started.set()
        release.wait()

    line = open_line({"stuck": stuck}, None if transport == "unix" else local_env, relay=transport == "relay")
    with line.popen("h.stuck()") as script:
        assert started.wait(60)
        line.close()
        assert not release.is_set()
        script.kill()
    release.set()
    for thread in threading.enumerate():
        if thread.name == "hermes-rpc-call":
            thread.join(60)


def test_a_relay_that_is_not_read_as_too_many_calls_run_ends_by_itself_all_the_same(open_line, local_env):
    release = threading.Event()
    line = open_line({"stuck": release.wait}, local_env, max_calls=1000, relay=True)
    code = """
    import threading
    threads = [threading.Thread(target=h.stuck, daemon=True) for _ in range(100)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    """
    with line.popen(code) as script:
        assert wait_until(lambda: line.transport._requests._is_paused, 60)
        line.close()
        assert line.transport._process.poll() == 0
        assert line.transport._process.running_command.reason is None  # and was not ended by us
        script.kill()
    release.set()


def test_the_end_of_a_queue_that_is_gone_leaves_nothing_in_the_session_s_directory(open_line, local_env):
    line = open_line({}, local_env)
    here = Path(local_env.cwd)
    before = sorted(here.iterdir())
    shutil.rmtree(line.directory / "rpc")
    line.transport.close()
    assert sorted(here.iterdir()) == before


def test_a_queue_that_can_no_longer_be_reached_is_closed_all_the_same(open_line, local_env):
    closing = threading.Event()

    def intervene(command):
        if closing.is_set():
            raise EnvironmentLostError("gone")

    line = open_line({}, FaultyEnvironment(local_env, intervene))
    closing.set()
    line.close()
