"""The close of a transport while a tool call, a connection or a process goes on: each wait takes 2 s at most."""

from __future__ import annotations

import shutil
import threading
import time
from pathlib import Path

import pytest
from targets.tool_channel import FaultyEnvironment

from code_execution import execute_code
from environments import EnvironmentLostError
from rpc.relay import MAX_RUNNING


@pytest.mark.parametrize("transport", ["unix", "file"])
def test_closing_does_not_wait_for_a_handler_that_runs_on(open_channel, local_env, transport):
    started, release = threading.Event(), threading.Event()

    def stuck():
        started.set()
        release.wait()

    channel = open_channel({"stuck": stuck}, None if transport == "unix" else local_env)
    with channel.popen("h.stuck()") as script:
        assert started.wait(60)
        channel.close()
        assert not release.is_set()
        script.kill()
    release.set()
    for thread in threading.enumerate():
        if thread.name == "hermes-rpc-call":
            thread.join(60)


def test_a_blocked_relay_with_too_many_calls_ends_by_itself(local_env):
    running, side_by_side, release = [], [], threading.Event()

    def stuck():
        running.append(1)
        release.wait(60)

    def release_calls():
        side_by_side.append(len(running))
        release.set()  # lets the waiting calls run

    code = """
import os, threading, time, hermes_tools
for _ in range(100): threading.Thread(target=hermes_tools.stuck, daemon=True).start()
time.sleep(2)
os._exit(3)
"""
    releasing = threading.Timer(6, release_calls)
    releasing.start()
    began = time.monotonic()
    result = execute_code(
        code, env=local_env, tools={"stuck": stuck}, transport="relay", max_tool_calls=1000, timeout=100
    )
    took = time.monotonic() - began
    releasing.join()
    assert (result.exit_code, side_by_side) == (3, [MAX_RUNNING])
    assert took < 50


def test_the_end_of_a_queue_that_is_gone_leaves_nothing_in_the_session_s_directory(open_channel, local_env):
    channel = open_channel({}, local_env)
    here = Path(local_env.cwd)
    before = sorted(here.iterdir())
    shutil.rmtree(channel.directory / "rpc")
    channel.transport.close()
    assert sorted(here.iterdir()) == before


def test_the_end_of_a_queue_that_is_gone_waits_for_nothing(open_channel, local_env, monkeypatch):
    """A script's supervisor removes the script's directory, in most cases before the queue is closed."""
    channel = open_channel({"echo": lambda value: value}, local_env)
    assert channel.run("print(h.echo(1))") == "1\n"
    shutil.rmtree(channel.directory / "rpc")
    monkeypatch.setattr("rpc.file_queue.CLOSE_GRACE_SECONDS", 1000)
    channel.transport.close()


def test_a_queue_that_can_no_longer_be_reached_is_closed_all_the_same(open_channel, local_env):
    closing = threading.Event()

    def intervene(command):
        if closing.is_set():
            raise EnvironmentLostError("gone")

    channel = open_channel({}, FaultyEnvironment(local_env, intervene))
    closing.set()
    channel.close()
