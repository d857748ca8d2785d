from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from targets.mcp_wire import INITIALIZE, call_of
from targets.processes import all_gone, having

from environments.conformance.check import wait_until

pytestmark = pytest.mark.xdist_group("mcp")


class Pipe:
    """A server that is talked to line by line."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        assert process.stdin and process.stdout
        self._to, self._from = process.stdin, process.stdout

    def say(self, message: object) -> None:
        line = message if isinstance(message, bytes) else json.dumps(message).encode()
        self._to.write(line + b"\n")
        self._to.flush()

    def hear(self) -> dict[str, Any]:
        """Return the next answer; each line is to be a message."""
        while True:
            message = json.loads(self._from.readline())
            assert message["jsonrpc"] == "2.0"
            if "method" not in message:
                return message

    def end(self) -> None:
        self._to.close()


@pytest.fixture
def pipe(server_variables: dict[str, str], tmp_path: Path) -> Iterator[Pipe]:
    words = ["-m", "hermes_env", "mcp", "--cwd", str(tmp_path)]
    with subprocess.Popen(
        [sys.executable, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=server_variables
    ) as process:
        yield Pipe(process)
        process.kill()


@pytest.mark.parametrize("ending", ["end of input", "SIGTERM", "SIGHUP"])
def test_what_a_client_started_ends_with_it(pipe: Pipe, ending: str, nap: str) -> None:
    pipe.say(INITIALIZE)
    pipe.hear()
    pipe.say(call_of("terminal", command=f"sleep {nap}"))
    assert wait_until(lambda: bool(having(nap)), 60)
    if ending == "end of input":
        pipe.end()
    else:
        pipe.process.send_signal(getattr(signal, ending))
    assert pipe.process.wait(60) == 0
    assert all_gone(nap)


def test_what_is_no_message_is_answered_with_an_error_and_the_server_goes_on(pipe: Pipe) -> None:
    for line, number, code in [
        (b"{", None, -32700),
        (b"[]", None, -32600),
        (b"\x00\xff", None, -32700),
        (b'{"jsonrpc": "2.0", "method": 7, "id": 1}', 1, -32600),
        (b'{"jsonrpc": "2.0", "method": "ping", "id": null}', None, -32600),
        (b'{"jsonrpc": "2.0", "method": "ping", "id": 1.5}', None, -32600),
        (rb'{"jsonrpc": "2.0", "method": "tools/call", "id": "a", "params": {"name": "\ud800"}}', "a", -32700),
        (b"[" * 100_000, None, -32700),
        (b'{"jsonrpc": "2.0", "text": "' + b"x" * 33 * 1024 * 1024 + b'"}', None, -32600),
    ]:
        pipe.say(line)
        error = pipe.hear()
        assert (error["id"], error["error"]["code"]) == (number, code)
    pipe.say(b"  ")
    pipe.say(INITIALIZE)
    assert pipe.hear()["result"]["protocolVersion"] == "2025-06-18"


def test_large_messages_pass_both_ways(pipe: Pipe) -> None:
    text = "words and more\n" * 200_000
    pipe.say(INITIALIZE)
    pipe.hear()
    pipe.say(call_of("write_file", path="large", content=text))
    assert pipe.hear()["result"]["structuredContent"]["bytes_written"] == len(text)
    pipe.say(call_of("read_file", path="large", limit=100_000))
    content = pipe.hear()["result"]["structuredContent"]["content"]
    assert len(content) > 90_000


def test_messages_alone_are_written_though_something_prints(server_variables: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "chatty.py").write_text(
        "import os, sys\n"
        "from environments.local import LocalEnvironment\n"
        "class Chatty(LocalEnvironment):\n"
        "    def run_in_session(self, call):\n"
        "        print('a library prints', flush=True)\n"
        "        os.write(1, b'and a program')\n"
        "        assert sys.stdin.read() == ''\n"
        "        return super().run_in_session(call)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-m", "hermes_env", "mcp", "--backend", "chatty:Chatty"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**server_variables, "PYTHONPATH": str(tmp_path)},
    ) as process:
        pipe = Pipe(process)
        pipe.say(INITIALIZE)
        pipe.hear()
        pipe.say(call_of("terminal", command="cat; echo out"))
        assert pipe.hear()["result"]["structuredContent"]["output"] == "out\n"
        rest, errors = process.communicate()
    assert rest == b""
    assert errors.startswith(b"a library prints\nand a program")


def test_input_and_output_may_be_files(server_variables: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "in").write_text(json.dumps(INITIALIZE) + "\n")
    with (tmp_path / "in").open() as given, (tmp_path / "out").open("w") as taken:
        subprocess.run(
            [sys.executable, "-m", "hermes_env", "mcp"], stdin=given, stdout=taken, env=server_variables, check=True
        )
    (line,) = (tmp_path / "out").read_text().splitlines()
    assert json.loads(line)["result"]["serverInfo"]["name"] == "hermes-env"
