"""One call of a tool that does nothing, from a script: measured inside of the script."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

from benchmarks.table import Row
from code_execution import execute_code
from code_execution.script_run import TransportName
from environments import BaseEnvironment, create_environment

CALLS = 300
_TIMED = """
import time
times = []
for _ in range({calls}):
    began = time.perf_counter()
    call()
    times.append(time.perf_counter() - began)
print(sorted(times)[len(times) // 2])
"""
_RAW = """
import json, socket, sys
connection = socket.socket(socket.AF_UNIX)
connection.connect(sys.argv[1])
reader = connection.makefile("rb")
def call():
    connection.sendall(json.dumps({"tool": "noop"}).encode() + b"\\n")
    json.loads(reader.readline())
"""


def tool_call_seconds(env: BaseEnvironment, transport: TransportName, calls: int = CALLS) -> float:
    """Return the median time of a call, in seconds."""

    def noop() -> None:
        """Do nothing."""

    script = "from hermes_tools import noop as call\n" + _TIMED.format(calls=calls)
    result = execute_code(script, env=env, tools={"noop": noop}, transport=transport, max_tool_calls=calls, timeout=60)
    if result.status != "success":
        raise RuntimeError(result.output)
    return float(result.output)


def rows() -> Iterator[Row]:
    """Measure both transports on this machine."""
    raw = _raw_seconds()
    note = "raw: a JSON round trip over a Unix socket"
    with create_environment("local") as env:
        over_socket = tool_call_seconds(env, "socket")
        yield Row(what="tool call, local, socket", raw=raw, ours=over_socket, goal=3, note=note)
        over_files = tool_call_seconds(env, "file")
        yield Row(what="tool call, local, file queue", raw=raw, ours=over_files, note="the same")


def _raw_seconds() -> float:
    with tempfile.TemporaryDirectory() as directory, socket.socket(socket.AF_UNIX) as listener:
        path = str(Path(directory, "socket"))
        listener.bind(path)
        listener.listen()
        thread = threading.Thread(target=_answer_all, args=(listener,))
        thread.start()
        client = [sys.executable, "-c", _RAW + _TIMED.format(calls=CALLS), path]
        taken = subprocess.run(client, capture_output=True, check=True).stdout
        thread.join()
    return float(taken)


def _answer_all(listener: socket.socket) -> None:
    connection, _ = listener.accept()
    with connection, connection.makefile("rb") as reader:
        for line in reader:
            json.loads(line)
            connection.sendall(json.dumps({"result": None}).encode() + b"\n")
