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

from benchmarks.measure import CannotDoError, Timer, seldom
from benchmarks.peers.installation import ROOT, python_with

LONGEST = 60.0
"""Seconds after which a peer counts as failed."""
_GRACE = 20.0
"""Seconds for its cleanup."""


@dataclass(frozen=True, slots=True)
class Kind:
    """Another package, and its installation."""

    name: str
    """The name with its version."""
    program: str
    """The module that runs in its virtual environment."""
    requirements: tuple[str, ...]
    """Requirements for pip."""

    @property
    def folder(self) -> str:
        """The name of its environment."""
        return self.program.rpartition(".")[2].removeprefix("of_")


HERMES_AGENT = Kind("hermes-agent 0.19.0", "benchmarks.peers.of_hermes_agent", ("hermes-agent==0.19.0",))
SWE_REX = Kind(
    "SWE-ReX 1.4.0", "benchmarks.peers.of_swe_rex", ("swe-rex==1.4.0", "aiohttp>=3.9")
)  # it does not name what its client needs
INSPECT_AI = Kind("inspect_ai 0.3.285", "benchmarks.peers.of_inspect_ai", ("inspect-ai==0.3.285",))
OPENAI_AGENTS = Kind("openai-agents 0.24.0", "benchmarks.peers.of_openai_agents", ("openai-agents[docker]==0.24.0",))


class Peer:
    """A process in the virtual environment of a peer.

    Args:
        python: The Python of that environment.
        kind: The kind of peer.
        home: A folder for its own files.
    """

    def __init__(self, python: Path, kind: Kind, home: Path) -> None:
        self._kind = kind
        self._process = subprocess.Popen(
            [python, "-m", kind.program],
            cwd="/",  # which every container has, too
            env=_variables(python, home),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        assert self._process.stdout
        self.works: frozenset[str] = frozenset(json.loads(self._process.stdout.readline() or b"[]"))
        """The names of its kinds of work."""

    def ask(
        self, work: str, arguments: Mapping[str, object] | None = None, *, longest: float = LONGEST
    ) -> tuple[float, Any]:
        """Have one piece of work done, and return its seconds and its value.

        Raises:
            CannotDoError: The work failed. After a time-out all further work fails.
        """
        assert self._process.stdin and self._process.stdout
        try:
            self._process.stdin.write(json.dumps({"work": work, "arguments": arguments or {}}).encode() + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            raise CannotDoError(f"{work}: its process has ended") from error
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            if not selector.select(longest):
                self._end()
                raise CannotDoError(f"{work}: not done within {longest:.0f} s")
        answer = json.loads(self._process.stdout.readline() or b'{"error": "its process has ended"}')
        if "error" in answer:
            raise CannotDoError(f"{work}: {answer['error']}")
        return answer["seconds"], answer["value"]

    def timer(self, work: str, **arguments: object) -> Timer:
        """Make a timer of a piece of work, measured in the peer."""
        return lambda: (self.ask(work, arguments)[0],)

    def close(self) -> None:
        """Have the peer clean up, and end its process."""
        with contextlib.suppress(CannotDoError):
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
def opened_peers(asked: Mapping[Kind, Mapping[str, object]]) -> Iterator[tuple[dict[str, Peer], dict[str, str]]]:
    """Start peers, and open a place in each.

    Args:
        asked: The arguments of each for its place.

    Yields:
        The ready peers by name, and the reasons for missing ones.
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
            except CannotDoError as error:
                missing[kind.name] = str(error)
            else:
                ready[kind.name] = peer
        yield ready, missing


def timers_of(peers: Mapping[str, Peer], work: str, every: int = 1) -> dict[str, Timer]:
    """Make timers of a piece of work for all able peers, each for every n-th turn."""
    return {name: seldom(peer.timer(work), every) for name, peer in peers.items() if work in peer.works}


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
