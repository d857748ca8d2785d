"""A whole line from a script to its tools: handlers, dispatcher, transport and stub."""

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

import pytest

from environments import CommandResult, create_environment
from environments.conformance.check import wait_until
from rpc import Dispatcher, FileQueueTransport, RelayTransport, UnixSocketTransport, generate_stub


class FaultyEnvironment:
    """A real environment, with a function that sees each command first and may change it, answer it or raise."""

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


class Line:
    def __init__(self, directory, handlers, env=None, max_calls=50, relay=False, **options):
        self.directory = directory
        self.token = secrets.token_hex(16)
        self.dispatcher = Dispatcher(handlers, token=self.token, max_calls=max_calls)
        if relay:
            self.transport = RelayTransport(self.dispatcher, env, str(directory), sys.executable)
        elif env is None:
            self.transport = UnixSocketTransport(self.dispatcher)
        else:
            self.transport = FileQueueTransport(self.dispatcher, env, str(directory), **options)
        self.transport.start()
        stub = generate_stub(handlers, self.transport.client_source, self.token)
        (directory / "hermes_tools.py").write_text(stub)

    def popen(self, code):
        script = self.directory / "script.py"
        script.write_text("import os, sys\nimport hermes_tools as h\n" + textwrap.dedent(code))
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


def rpc_threads():
    return [thread.name for thread in threading.enumerate() if thread.name.startswith(("hermes-rpc", "hermes-async"))]


@pytest.fixture(scope="session")
def local_env():
    with create_environment("local") as env:
        yield env


@pytest.fixture
def open_line(tmp_path):
    """Open lines, and check that each leaves no thread behind."""
    lines = []

    def open_one(handlers, env=None, max_calls=50, relay=False, **options):
        directory = tmp_path / f"line{len(lines)}"
        directory.mkdir(mode=0o700)
        lines.append(Line(directory, handlers, env, max_calls, relay, **options))
        return lines[-1]

    yield open_one
    for line in lines:
        line.close()
    wait_until(lambda: rpc_threads() == [], 60)  # what closes waits for a loaded machine so long and no longer
    assert rpc_threads() == []


@pytest.fixture
def load(tmp_path, monkeypatch):
    """Load a stub into this process, joined to its dispatcher without a transport."""
    for module in (sys, threading):  # whose hooks it takes
        monkeypatch.setattr(module, "excepthook", module.excepthook)

    def load_one(token="token", max_calls=50, tool_errors="return", **handlers):
        path = tmp_path / "hermes_tools.py"
        source = generate_stub(handlers, "", token, tool_errors)
        ast.parse(source, feature_version=(3, 8))
        path.write_text(source, "utf-8")
        spec = importlib.util.spec_from_file_location("hermes_tools_under_test", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        module._exchange = Dispatcher(handlers, token=token, max_calls=max_calls).dispatch
        return module

    return load_one


@pytest.fixture
def connection(line: Line) -> Iterator[socket.socket]:
    """A connection to the socket of `line`, which the test makes, with nothing sent over it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connected:
        connected.connect(socket_path(line))
        connected.settimeout(30)
        yield connected


def socket_path(line: Line) -> str:
    """Return the path of the socket that a script of a line connects to."""
    names: dict[str, str] = {}
    exec(line.transport.client_source, names)
    return names["_SOCKET_PATH"]
