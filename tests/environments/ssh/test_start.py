"""Connections that are given up while the host, or what leads to it, does not answer."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from targets.silent_server import silent_server
from targets.ssh_server import make_key
from targets.stopped_starts import WAYS, Stop, our_threads

from environments import create_environment
from environments.base import BaseEnvironment
from environments.conformance.check import wait_until
from environments.progress import Progress

each_way = pytest.mark.parametrize("stop", WAYS, ids=lambda way: way.__name__)


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, object]:
    (tmp_path / "config").write_text("")
    return {"host": "127.0.0.1", "user": "nobody", "key": make_key(tmp_path / "key"), "config": tmp_path / "config"}


@pytest.fixture
def full_port() -> Iterator[int]:
    """A port whose queue is full, so that what knocks there gets no answer at all."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server:
        port = server.getsockname()[1]
        waiting = [socket.socket() for _ in range(3)]
        for each in waiting:
            each.setblocking(False)
            each.connect_ex(("127.0.0.1", port))
        yield port
        for each in waiting:
            each.close()


def made(settings: dict[str, object], **more: object) -> BaseEnvironment:
    return create_environment("ssh", **{**settings, **more})


@each_way
def test_a_host_that_says_nothing_is_not_waited_for(settings, stop: Stop):
    with silent_server() as server, made(settings, port=server.port) as env:
        stop(env, server.reached.wait)
        assert wait_until(lambda: not our_threads())


@each_way
def test_a_host_that_drops_what_knocks_is_not_waited_for(settings, stop: Stop, full_port):
    told: list[Progress] = []
    with made(settings, port=full_port, on_progress=told.append) as env:
        stop(env, lambda: wait_until(lambda: len(told) > 1))
        assert told[1].what.startswith("connecting to") and str(full_port) in told[1].what
        assert wait_until(lambda: not our_threads())


@each_way
def test_a_proxy_command_that_says_nothing_is_ended(settings, stop: Stop, tmp_path, nap):
    began = tmp_path / "began"
    (tmp_path / "config").write_text(f"Host *\n  ProxyCommand sh -c 'touch {began}; exec sleep {nap}'\n")
    with made(settings) as env:
        stop(env, lambda: wait_until(began.exists))
        assert wait_until(lambda: not our_threads())
        assert not any(nap in (process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"]))
