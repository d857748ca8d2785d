"""The servers of one environment: one for each Python that scripts run on, started behind the first script."""

from __future__ import annotations

import os
import secrets
import shlex
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from code_execution.beginning import Beginning
from code_execution.child_environment import script_command
from code_execution.interpreter import PYTHON, Pythons
from code_execution.warm.asking import Server
from code_execution.warm.fingerprint import SHAPING, SHAPING_NAMES
from code_execution.warm.server_program import CHANGED, IDLE_SECONDS
from code_execution.warm.target_program import server_source
from environments.base import BaseEnvironment
from environments.errors import TerminalError
from environments.log import logger
from environments.output import Channel

MOST = 3
"""Servers of one environment. The one that was used least lately goes."""
ATTEMPTS = 3
"""How many servers in a row may fail before there is none any more."""
_MARGIN = 10.0
"""Seconds before a server ends by itself in which it is not asked any more."""
_ARGUMENTS_ROOM, _VARIABLES_ROOM = 2048, 8192
"""Bytes that a server has for what is shown of its forks, see `own_memory`."""

_log = logger(__name__)


class Kind(NamedTuple):
    """What makes one server another: all that its Python depends on, as far as it is known here."""

    pythons: Pythons
    session: tuple[tuple[str, str], ...]
    shaping: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, pythons: Pythons, session: Mapping[str, str], allowed: Mapping[str, str]) -> Kind:
        """Return that of a script."""
        shaping = {name: value for name, value in allowed.items() if name.startswith(SHAPING) or name in SHAPING_NAMES}
        known = {name: value for name, value in session.items() if name != "PWD"}
        return cls(pythons, tuple(sorted(known.items())), tuple(sorted(shaping.items())))


@dataclass(slots=True)
class _Kept:
    server: Server | None = None
    used: float = field(default_factory=time.monotonic)
    failures: int = 0
    """How many servers failed since one has taken a script."""
    starting: _Words | None = None


class WarmServers:
    """The servers, as an `Attachment`: they end with the environment, whose marker they carry."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[Kind, _Kept] = {}
        self._ended: list[Server] = []

    def ready(self, kind: Kind) -> Server | None:
        """Return the server of a kind, if there is one to ask."""
        with self._lock:
            kept = self._kept.get(kind)
            if kept is None:
                return None
            if kept.starting and not kept.server:
                kept.server, kept.used = kept.starting.server, time.monotonic()
                kept.starting = None if kept.server or kept.starting.ended.is_set() else kept.starting
            if kept.server and time.monotonic() - kept.used > IDLE_SECONDS - _MARGIN:
                self._ended.append(kept.server)
                kept.server = None
            kept.used = time.monotonic()
            return kept.server

    def took(self, kind: Kind) -> None:
        """Note that one has taken a script."""
        with self._lock:
            if kept := self._kept.get(kind):
                kept.failures = 0

    def failed(self, kind: Kind, server: Server) -> None:
        """Note that one was asked in vain."""
        with self._lock:
            kept = self._kept.get(kind)
            if kept and kept.server == server:
                self._ended.append(server)
                kept.server = None
                kept.failures += 1

    def see_to(self, env: BaseEnvironment, kind: Kind) -> None:
        """Have a server of a kind started if there is none, without waiting for it."""
        with self._lock:
            kept = self._kept.setdefault(kind, _Kept())
            if kept.server or kept.starting or kept.failures >= ATTEMPTS:
                return
            for least in sorted(self._kept, key=lambda each: self._kept[each].used)[: len(self._kept) - MOST]:
                if dropped := self._kept.pop(least).server:
                    self._ended.append(dropped)
            kept.starting = words = _Words()
            ended, self._ended = self._ended, []
        try:
            process = env.internal.start(_starting(env, kind, words, ended), stdin="none", sink=words)
            process.add_done_callback(lambda code: self._is_done(kept, words, again=code == CHANGED))
        except TerminalError as error:
            _log.debug("no Python could be kept ready: %s", type(error).__name__)
            self._is_done(kept, words)

    def _is_done(self, kept: _Kept, words: _Words, *, again: bool = False) -> None:
        words.ended.set()
        with self._lock:
            if not words.server:
                kept.starting = None
                kept.failures = kept.failures + 1 if again else ATTEMPTS  # it has said why, or cannot even be started

    def close(self) -> None:
        """Keep none any more. They have ended with the environment."""
        with self._lock:
            self._kept.clear()


class _Words:
    """Takes what a server says as it starts."""

    separate = True

    def __init__(self) -> None:
        self.beginning = Beginning()
        self.word = secrets.token_hex(8)
        self.directory = ""
        self.ended = threading.Event()
        self._said = b""

    def add(self, channel: Channel, data: bytes) -> None:
        """Take the next bytes."""
        if channel is Channel.STDERR:
            self.beginning.feed(data)
        else:
            self._said = (self._said + data)[-100:]

    @property
    def server(self) -> Server | None:
        """The server, once it has said that it is ready."""
        word, _, pid = self._said.partition(b" ")
        if word.decode("utf-8", "replace") != self.word or not pid.strip().isdigit() or self.beginning.chosen is None:
            return None
        return Server(self.directory, int(pid), self.beginning.chosen)


def _starting(env: BaseEnvironment, kind: Kind, words: _Words, ended: list[Server]) -> str:
    """Return shell text that starts a server, and ends those that are not wanted any more."""
    words.directory = f"{env.internal.scratch_directory()}/warm-{os.urandom(4).hex()}"
    place = shlex.quote(words.directory)
    source = f"mkdir -m 700 -- {place} && printf %s {shlex.quote(server_source())} >{place}/serve || exit 1\n"
    python = PYTHON
    room = f"HERMES_ROOM={'x' * _VARIABLES_ROOM}"
    argv = f"env {room} {python} -u {place}/serve {place} {words.word} {python} {'x' * _ARGUMENTS_ROOM}"
    command = script_command(argv, words.directory, dict(kind.shaping), dict(kind.session))
    return "".join(map(_ending, ended)) + source + words.beginning.choosing(kind.pythons) + command


def _ending(server: Server) -> str:
    place = shlex.quote(server.directory)
    is_it = f"grep -qsF -- {place} /proc/{server.pid}/cmdline"
    return f"if {is_it}; then kill -s KILL {server.pid}; fi 2>/dev/null\nrm -rf -- {place} 2>/dev/null\n"
