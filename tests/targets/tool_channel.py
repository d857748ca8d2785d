"""An RPC channel from a script to its tools: handlers, dispatcher, transport and stub."""

from __future__ import annotations

import ast
import importlib.util
import os
import secrets
import socket
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from code_execution import execute_code
from code_execution.boot_program import stage
from environments import CommandResult, create_environment
from environments.conformance.check import wait_until
from environments.loop import run
from rpc import (
    FILE_QUEUE,
    SOCKET,
    Dispatcher,
    FileQueueTransport,
    UnixSocketTransport,
    generate_stub,
    own_file,
)

BEGIN = "import os, sys\nimport hermes_tools as h\n"
"""The first lines of each script."""


class FaultyEnvironment:
    """A real environment. A function sees each command first, and may change it, return its result or raise."""

    def __init__(self, env, intervene):
        self._env = env
        self._intervene = intervene
        self.commands = []
        self.internal = self

    @property
    def capabilities(self):
        return self._env.capabilities

    def execute(self, command, **options):
        self.commands.append(command)
        changed = self._intervene(command)
        if isinstance(changed, CommandResult):
            return changed
        return self._env.internal.execute(changed or command, **options)

    def write_bytes(self, path, data):
        self._env.write_bytes(path, data)


async def _started(transport, place, _):
    transport.start(place)


class ToolChannel:
    """A channel over a Unix socket, or over a file queue in an environment, shared by its scripts."""

    def __init__(self, directory, handlers, env=None, max_calls=50, wake=True, **options):
        self.directory = directory
        self.token = secrets.token_hex(16)
        self.dispatcher = Dispatcher(handlers, token=self.token, max_calls=max_calls)
        stage(str(directory), {"rpc/": b"", **({"rpc/wake|": b""} if wake else {})})
        if env is None:
            self.transport, client = UnixSocketTransport(self.dispatcher), SOCKET
            self.place = f"{directory}/socket"
            run(partial(_started, self.transport, self.place))
        else:
            self.place, client = f"{directory}/rpc", FILE_QUEUE
            self.transport = FileQueueTransport(self.dispatcher, env, self.place, **options)
            self.transport.start()
        (directory / "hermes_tools.py").write_text(generate_stub(handlers, client, "return"))
        (directory / "own").write_text(own_file(self.token, self.place))

    @property
    def calls_made(self):
        return self.dispatcher.calls_made

    def popen(self, code):
        script = self.directory / "script.py"
        script.write_text(BEGIN + textwrap.dedent(code))
        return subprocess.Popen(
            [sys.executable, "-W", "error", str(script)],
            cwd=self.directory,
            env={**os.environ, "PYTHONPATH": str(self.directory)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, code):
        with self.popen(code) as process:
            output, _ = process.communicate(timeout=60)
        assert process.returncode == 0, output
        return output

    def close(self):
        self.dispatcher.close()
        self.transport.close()
        self.dispatcher.join()


class RelayedToolChannel:
    """A channel over the relay of a script's boot program, new for each script."""

    def __init__(self, handlers, env, max_calls=50):
        self._handlers, self._env, self._max_calls = handlers, env, max_calls
        self.calls_made = 0

    def run(self, code):
        result = execute_code(
            BEGIN + "os.chdir(sys.path[0])\n" + textwrap.dedent(code),
            env=self._env,
            tools=self._handlers,
            max_tool_calls=self._max_calls,
            transport="relay",
            tool_errors="return",
            timeout=60,
        )
        assert result.status == "success", result
        self.calls_made += result.tool_calls_made
        return result.output

    def close(self):
        pass


def rpc_threads():
    return [thread.name for thread in threading.enumerate() if thread.name.startswith(("hermes-rpc", "hermes-async"))]


@pytest.fixture(scope="session")
def local_env():
    with create_environment("local") as env:
        yield env


@pytest.fixture
def open_channel(tmp_path):
    """Opens channels, and checks that no thread is left of them."""
    channels = []

    def open_one(handlers, env=None, max_calls=50, relay=False, below="", **options):
        directory = tmp_path / below / f"channel{len(channels)}"
        made = (
            RelayedToolChannel(handlers, env, max_calls)
            if relay
            else ToolChannel(directory, handlers, env, max_calls, **options)
        )
        channels.append(made)
        return channels[-1]

    yield open_one
    for channel in channels:
        channel.close()
    wait_until(lambda: rpc_threads() == [], 60)
    assert rpc_threads() == []


@pytest.fixture
def load(tmp_path, monkeypatch):
    """Loads a stub into this process, connected to its dispatcher without a transport."""
    for module in (sys, threading):  # the stub replaces their hooks
        monkeypatch.setattr(module, "excepthook", module.excepthook)

    def load_one(token="token", place="", max_calls=50, tool_errors="return", **handlers):
        path = tmp_path / "hermes_tools.py"
        source = generate_stub(handlers, SOCKET, tool_errors)
        ast.parse(source, feature_version=(3, 8))
        path.write_text(source, "utf-8")
        (tmp_path / "own").write_text(own_file(token, place), "utf-8")
        spec = importlib.util.spec_from_file_location("hermes_tools_under_test", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        module._exchange = Dispatcher(handlers, token=token, max_calls=max_calls).dispatch
        return module

    return load_one


@pytest.fixture
def connection(channel: ToolChannel) -> Iterator[socket.socket]:
    """An unused connection to the socket of the test's fixture `channel`."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connected:
        connected.connect(socket_path(channel))
        connected.settimeout(30)
        yield connected


def socket_path(channel: ToolChannel) -> str:
    """Return the path of a channel's socket."""
    return str(channel.place)


def connect(channel: ToolChannel, count: int) -> list[socket.socket]:
    """Return unused connections to a channel's socket."""
    path = str(Path(socket_path(channel)).parent / "socket")
    connections = [socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) for _ in range(count)]
    for each in connections:
        each.connect(path)
        each.settimeout(30)
    return connections
