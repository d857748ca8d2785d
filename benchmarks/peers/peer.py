"""The driver's side of the pipe to a peer."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.measure import Timer, UnavailableError, every_nth
from benchmarks.peers.installation import ROOT, python_with

LONGEST = 60.0
"""Seconds after which a peer counts as failed."""
_GRACE = 20.0
"""Seconds for a peer's cleanup."""


@dataclass(frozen=True, slots=True)
class Package:
    """Another package, and its installation."""

    name: str
    """The name with its version."""
    program: str
    """The module to run in the virtual environment."""
    requirements: tuple[str, ...]
    """Requirements for pip."""

    @property
    def folder(self) -> str:
        """The name of the virtual environment."""
        return self.program.rpartition(".")[2].removeprefix("of_")


HERMES_AGENT = Package("hermes-agent 0.19.0", "benchmarks.peers.of_hermes_agent", ("hermes-agent==0.19.0",))
SWE_REX = Package(
    "SWE-ReX 1.4.0", "benchmarks.peers.of_swe_rex", ("swe-rex==1.4.0", "aiohttp>=3.9")
)  # swe-rex does not require aiohttp, which its client imports
INSPECT_AI = Package("inspect_ai 0.3.285", "benchmarks.peers.of_inspect_ai", ("inspect-ai==0.3.285",))
OPENAI_AGENTS = Package("openai-agents 0.24.0", "benchmarks.peers.of_openai_agents", ("openai-agents[docker]==0.24.0",))


class Peer:
    """A process in the virtual environment of a peer.

    Args:
        python: The Python of the virtual environment.
        kind: The kind of peer.
        home: A folder for the peer's files.
    """

    def __init__(self, python: Path, kind: Package, home: Path) -> None:
        self._kind = kind
        self._process = subprocess.Popen(
            [python, "-m", kind.program],
            cwd="/",  # exists in every container, too
            env=_variables(python, home),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        assert self._process.stdout
        self.works: frozenset[str] = frozenset(json.loads(self._process.stdout.readline() or b"[]"))
        """The names of supported work."""

    def ask(
        self, work: str, arguments: Mapping[str, object] | None = None, *, longest: float = LONGEST
    ) -> tuple[float, Any]:
        """Request a piece of work, and return its seconds and its value.

        Raises:
            UnavailableError: The work failed. After a time-out all further work fails.
        """
        assert self._process.stdin and self._process.stdout
        try:
            self._process.stdin.write(json.dumps({"work": work, "arguments": arguments or {}}).encode() + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            raise UnavailableError(f"{work}: its process has ended") from error
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            if not selector.select(longest):
                self._end()
                raise UnavailableError(f"{work}: not done within {longest:.0f} s")
        answer = json.loads(self._process.stdout.readline() or b'{"error": "its process has ended"}')
        if "error" in answer:
            raise UnavailableError(f"{work}: {answer['error']}")
        return answer["seconds"], answer["value"]

    def timer(self, work: str, **arguments: object) -> Timer:
        """Make a timer of some work, measured in the peer."""
        return lambda: (self.ask(work, arguments)[0],)

    def close(self) -> None:
        """Request the peer's cleanup, and end the process."""
        with contextlib.suppress(UnavailableError):
            self.ask("close", longest=_GRACE)
        assert self._process.stdin and self._process.stdout
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            self._end()
        self._process.stdout.close()

    def _end(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


@contextlib.contextmanager
def opened_peers(asked: Mapping[Package, Mapping[str, object]]) -> Iterator[tuple[dict[str, Peer], dict[str, str]]]:
    """Start peers, and open a place in each.

    Args:
        asked: The peers, each with the arguments of its place.

    Yields:
        The ready peers by name, and the reasons for missing peers.
    """
    ready: dict[str, Peer] = {}
    missing: dict[str, str] = {}
    with contextlib.ExitStack() as opened:
        for kind, place in asked.items():
            try:
                python = python_with(kind.folder, kind.requirements)
                home = Path(opened.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
                peer = Peer(python, kind, home)
                opened.callback(peer.close)
                peer.ask("open", place)
            except UnavailableError as error:
                missing[kind.name] = str(error)
            else:
                ready[kind.name] = peer
        yield ready, missing


def timers_of(peers: Mapping[str, Peer], work: str, every: int = 1) -> dict[str, Timer]:
    """Make timers of some work for all peers with support, each for every n-th turn."""
    return {name: every_nth(peer.timer(work), every) for name, peer in peers.items() if work in peer.works}


def _variables(python: Path, home: Path) -> dict[str, str]:
    """Return variables without settings of ours or of the peer."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TERMINAL_", "PYTHON"))}
    return {
        **kept,
        "PATH": f"{python.parent}:{os.environ['PATH']}",  # as in an environment that is active
        "VIRTUAL_ENV": str(python.parents[1]),
        "TMPDIR": str(home),
        "HERMES_HOME": str(home),
        "INSPECT_LOG_DIR": str(home),
        "PYTHONPATH": str(ROOT),
    }
