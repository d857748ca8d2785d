"""A stand-in as a child process, and its handle for tests.

In a child, the server's threads and file descriptors are not mistaken for leftovers of the client library. The child
prints a line with the client's environment variables. Then it answers each line of JSON with a line of JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import resource
import signal
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from standins.boxes import Boxes, DockerBoxes, HostBoxes
from standins.delay import DelayProxy
from standins.faults import Fault, Ledger

TESTS = Path(__file__).resolve().parents[1]


class Server(Protocol):
    """A running stand-in."""

    ledger: Ledger

    @property
    def variables(self) -> Mapping[str, str]:
        """Environment variables for the service's client, with the stand-in's address."""

    async def end_sandboxes(self) -> None:
        """End all sandboxes by accident: processes and files are gone, without a notification."""

    def seen(self) -> Mapping[str, object]:
        """Return the clients' requests as JSON, for tests."""


Serve = Callable[[Boxes, DelayProxy], AbstractAsyncContextManager[Server]]
"""Serves within the block. `await proxy.front(port)` starts the proxy, and returns the port to advertise."""


def main(serve: Serve) -> None:
    """Run a stand-in until the end of its input; if the input is no pipe, until Ctrl-C or SIGTERM."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--docker", metavar="IMAGE", help="run commands in containers of this image, not right here")
    parser.add_argument("--round-trip-ms", type=float, default=0, help="delay everything by this round trip")
    options = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with contextlib.suppress(KeyboardInterrupt, asyncio.CancelledError):  # the latter by SIGTERM
        asyncio.run(_run(serve, options.docker, options.round_trip_ms / 1000))


async def _run(serve: Serve, image: str | None, round_trip: float) -> None:
    boxes = DockerBoxes(image) if image else HostBoxes()
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task
    loop.add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        async with serve(boxes, DelayProxy(round_trip)) as server:
            if not stat.S_ISFIFO(os.fstat(sys.stdin.fileno()).st_mode):  # no test controls it
                print("\n".join(f"export {name}={value}" for name, value in server.variables.items()), flush=True)
                await asyncio.Event().wait()
            print(json.dumps(dict(server.variables)), flush=True)
            async for line in _lines():
                print(json.dumps(await _answer(server, json.loads(line))), flush=True)
    finally:
        await boxes.close()


async def _lines() -> AsyncIterator[bytes]:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    async for line in reader:
        yield line


async def _answer(server: Server, order: Mapping[str, str]) -> object:
    match order["do"]:
        case "fault":
            server.ledger.order(order["call"], Fault(order["fault"]), int(order["times"]))
        case "clear_faults":
            server.ledger.clear()
        case "release":
            server.ledger.release()
        case "calls":
            return server.ledger.calls
        case "unimplemented":
            return server.ledger.unimplemented
        case "seen":
            return server.seen()
        case "end_sandboxes":
            await server.end_sandboxes()
    return None


class StandIn:
    """A running stand-in.

    Args:
        module: The server, such as `standins.modal_server`.
        image: The Docker image for commands; None to run them on this machine.
        round_trip_ms: Added round-trip time in milliseconds.
    """

    def __init__(self, module: str, image: str | None = None, round_trip_ms: float = 0) -> None:
        where = ["--docker", image] if image else []
        self._child = subprocess.Popen(
            [sys.executable, "-m", module, *where, "--round-trip-ms", str(round_trip_ms)],
            env={**os.environ, "PYTHONPATH": str(TESTS)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.variables: dict[str, str] = json.loads(self._read())

    def _read(self) -> str:
        assert self._child.stdout
        line = self._child.stdout.readline()
        if not line:
            raise RuntimeError("the stand-in has ended; its standard error is above")
        return line

    def _order(self, do: str, **details: object) -> object:
        assert self._child.stdin
        self._child.stdin.write(json.dumps({"do": do, **details}) + "\n")
        self._child.stdin.flush()
        return json.loads(self._read())

    def fault(self, call: str, fault: Fault, times: int = 1) -> None:
        """Inject a fault into the next calls of a name."""
        self._order("fault", call=call, fault=fault.value, times=times)

    def clear_faults(self) -> None:
        """Remove the pending faults."""
        self._order("clear_faults")

    def release(self) -> None:
        """Continue the held calls."""
        self._order("release")

    @property
    def calls(self) -> dict[str, int]:
        """Number of each call so far."""
        return self._counts("calls")

    @property
    def unimplemented(self) -> dict[str, int]:
        """Number of each call without an implementation."""
        return self._counts("unimplemented")

    def _counts(self, what: str) -> dict[str, int]:
        counts = self._order(what)
        assert isinstance(counts, dict)
        return counts

    @property
    def seen(self) -> dict[str, object]:
        """The clients' requests."""
        found = self._order("seen")
        assert isinstance(found, dict)
        return found

    def end_sandboxes(self) -> None:
        """End all sandboxes by accident."""
        self._order("end_sandboxes")

    def close(self) -> None:
        """Stop the stand-in and all sandboxes, and check that no call was unimplemented."""
        try:
            lacking = self.unimplemented
        finally:
            assert self._child.stdin and self._child.stdout
            self._child.stdin.close()
            self._child.wait(60)
            self._child.stdout.close()
        assert not lacking, f"calls that the stand-in lacks: {lacking}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
