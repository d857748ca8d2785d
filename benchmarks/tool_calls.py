"""The call of an empty tool, measured inside the script."""

from __future__ import annotations

import json
import shlex
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

from benchmarks.measure import UnavailableError
from benchmarks.peers.scripts import TIMED
from benchmarks.raw_process import RawProcess
from code_execution import execute_code
from code_execution.limits import TransportName
from environments import BaseEnvironment

CALLS = 300
_RAW = """
import json, socket, sys
connection = socket.socket(socket.AF_UNIX)
connection.connect(sys.argv[1])
reader = connection.makefile("rb")
def call():
    connection.sendall(json.dumps({"tool": "noop"}).encode() + b"\\n")
    json.loads(reader.readline())
"""

_RAW_OVER_STREAM = """
import json, sys
def call():
    sys.stdout.write(json.dumps({"tool": "noop"}) + "\\n")
    sys.stdout.flush()
    json.loads(sys.stdin.readline())
"""


def tool_call_times(env: BaseEnvironment, transport: TransportName, calls: int = CALLS) -> Sequence[float]:
    """Return the seconds of each call.

    Raises:
        UnavailableError: The script failed.
    """

    def noop() -> None:
        """Do nothing."""

    script = "from hermes_tools import noop as call\n" + TIMED.format(calls=calls)
    result = execute_code(script, env=env, tools={"noop": noop}, transport=transport, max_tool_calls=calls, timeout=60)
    if result.status != "success":
        raise UnavailableError(f"the script ended with {result.status}: {result.output}")
    times: Sequence[float] = json.loads(result.output)
    return times


def socket_times(calls: int = CALLS) -> Sequence[float]:
    """Return the seconds of each JSON round trip over a Unix socket between two processes."""
    with tempfile.TemporaryDirectory() as directory, socket.socket(socket.AF_UNIX) as listener:
        path = str(Path(directory, "socket"))
        listener.bind(path)
        listener.listen()
        thread = threading.Thread(target=_answer_all, args=(listener,))
        thread.start()
        client = [sys.executable, "-c", _RAW + TIMED.format(calls=calls), path]
        taken = subprocess.run(client, capture_output=True, check=True).stdout
        thread.join()
    times: Sequence[float] = json.loads(taken)
    return times


def stream_times(bash: RawProcess, calls: int = CALLS) -> Sequence[float]:
    """Return the seconds of each JSON round trip between a Python in a target and this process.

    Args:
        bash: A shell in the target. The Python uses the shell's stream.
        calls: The number of round trips.
    """
    said = bash.round_trip(f"python3 -c {shlex.quote(_RAW_OVER_STREAM + TIMED.format(calls=calls))}\n".encode())
    while isinstance(message := json.loads(said), dict):
        said = bash.round_trip(json.dumps({"result": None}).encode() + b"\n")
    times: Sequence[float] = message
    return times


def _answer_all(listener: socket.socket) -> None:
    connection, _ = listener.accept()
    with connection, connection.makefile("rb") as reader:
        for line in reader:
            json.loads(line)
            connection.sendall(json.dumps({"result": None}).encode() + b"\n")
