from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from targets.command_line import WORDS
from targets.mcp_wire import DISCOVER, INITIALIZE, MODERN, Pipe, call_of, check_discovery
from targets.processes import all_gone, processes_with
from targets.run_record import RunRecord

from environments.conformance.check import wait_until

pytestmark = pytest.mark.xdist_group("mcp")

TOOLS = ["read_file", "write_file", "terminal", "execute_code"]
CHATTY = """
import os, sys
from environments.local import LocalEnvironment

class Chatty(LocalEnvironment):
    def execute(self, command, **options):
        print("a library prints", flush=True)
        os.write(1, b"and a program")
        assert sys.stdin.read() == ""
        return super().execute(command, **options)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("chatty")


@pytest.fixture(scope="module")
def pipe(server_variables: dict[str, str], folder: Path) -> Iterator[Pipe]:
    """A server after the handshake, on a backend that prints."""
    (folder / "chatty.py").write_text(CHATTY)
    words = [*WORDS, "mcp", "--backend", "chatty:Chatty", "--cwd", str(folder)]
    words += ["--record", str(folder / "record"), *(word for tool in TOOLS for word in ("--tool", tool))]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    variables = {**server_variables, "PYTHONPATH": str(folder)}
    with (
        (folder / "errors").open("wb") as errors,
        subprocess.Popen(words, stderr=errors, env=variables, **pipes) as process,
    ):
        found = Pipe(process)
        found.send(DISCOVER)
        check_discovery(found.receive())
        found.send({**call_of("terminal", command="true"), "params": DISCOVER["params"]})
        error = found.receive()["error"]
        assert (error["code"], error["data"]["requested"]) == (-32022, MODERN)
        assert "2025-11-25" in error["data"]["supported"]
        found.send(INITIALIZE)
        assert found.receive()["result"]["protocolVersion"] == "2025-06-18"
        yield found
        process.kill()


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
        pipe.send(line)
        error = pipe.receive()
        assert (error["id"], error["error"]["code"]) == (number, code)
    pipe.send(b"  ")
    pipe.send({"jsonrpc": "2.0", "method": "ping", "id": 5})
    assert pipe.receive()["id"] == 5


def test_large_messages_pass_both_ways(pipe: Pipe) -> None:
    text = "words and more\n" * 200_000
    pipe.send(call_of("write_file", path="large", content=text))
    assert pipe.receive()["result"]["structuredContent"]["bytes_written"] == len(text)
    pipe.send(call_of("read_file", path="large", limit=100_000))
    content = pipe.receive()["result"]["structuredContent"]["content"]
    assert len(content) > 90_000


def test_messages_alone_are_written_though_something_prints(pipe: Pipe, folder: Path) -> None:
    pipe.send(call_of("terminal", command="cat; echo out"))
    assert pipe.receive()["result"]["structuredContent"]["output"] == "out\n"
    assert (folder / "errors").read_bytes().startswith(b"a library prints\nand a program")


def test_the_chosen_tools_are_there_and_a_script_has_them_too(pipe: Pipe) -> None:
    pipe.send({"jsonrpc": "2.0", "id": 3, "method": "tools/list"})
    assert sorted(tool["name"] for tool in pipe.receive()["result"]["tools"]) == sorted(TOOLS)
    pipe.send(call_of("patch"))
    told = "there is no tool 'patch'; there are: "
    assert told in pipe.receive()["error"]["message"]
    pipe.send(call_of("execute_code", code="from hermes_tools import terminal\nprint(terminal('echo in')['output'])"))
    assert pipe.receive()["result"]["structuredContent"]["output"] == "in\n\n"


def test_what_a_client_started_ends_with_it_and_a_record_holds_what_was_done(
    pipe: Pipe, folder: Path, nap: str
) -> None:
    code = "from hermes_tools import terminal\nprint(terminal('echo of the record')['output'])"
    for call in (call_of("write_file", path="small", content="a"), call_of("execute_code", code=code)):
        pipe.send(call)
        pipe.receive()
    pipe.send(call_of("terminal", command=f"sleep {nap}"))
    assert wait_until(lambda: bool(processes_with(nap)), 60)
    pipe.end()
    assert pipe.process.wait(60) == 0
    assert all_gone(nap)
    recorded = RunRecord(folder / "record")
    assert len(recorded.of("run")) == 1
    begun = [(event["kind"], event["name"]) for event in recorded.of("begin")]
    assert ("tool_call", "write_file") in begun
    at = begun.index(("command", "echo of the record"))
    assert begun[at - 2 : at] == [("script", "from hermes_tools import terminal"), ("tool_call", "terminal")]
