"""What a server is to one run of a script: whether it is asked, how, and what is made of its answer."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Mapping, Sequence

from code_execution.beginning import Beginning
from code_execution.child_environment import script_variables
from code_execution.interpreter import Pythons
from code_execution.warm.asking import KEEP, PIPES, SECRET, WITHDRAWN, Server, asking, job_text, withdrawing
from code_execution.warm.servers import Kind, WarmServers
from environments.base import BaseEnvironment
from environments.errors import TerminalError

PATIENCE = 5.0
"""Seconds that a server has to fork. One that takes longer has been stopped, and the script is started without it."""
_WITHDRAWAL_LIMIT = 10.0


class Warmth:
    """A server for a script, if one is ready.

    Args:
        env: Where the script is to run.
        pythons: Those that it may run on.
        session: What it has of the session.
        asks: Whether a server that is ready is asked, or only seen to for later scripts.
    """

    def __init__(self, env: BaseEnvironment, pythons: Pythons, session: Mapping[str, str], *, asks: bool) -> None:
        self._env = env
        self._allowed = env.passthrough.values()
        self._session = session
        self._kind = Kind.of(pythons, session, self._allowed)
        self._servers = env.attachments.get(WarmServers)
        self._server: Server | None = self._servers.ready(self._kind) if asks and self._may_ask() else None

    @staticmethod
    def is_possible(env: BaseEnvironment, pythons: Pythons) -> bool:
        """Return whether there can be servers. Where a stream is made of short commands, talking to one is too slow."""
        return env.capabilities.duplex and not pythons.doubtful

    def _may_ask(self) -> bool:
        # Another shell than bash may print by a program, in whose arguments the values would be.
        return self._env.capabilities.shell == "bash" or not self._allowed

    @property
    def is_asked(self) -> bool:
        """Whether the script is to be forked."""
        return self._server is not None

    @property
    def pipes(self) -> Sequence[str]:
        """The pipes that are needed in the script's directory."""
        return PIPES if self._server else ()

    def files(self, beginning: Beginning, *, keep: bool) -> dict[str, str]:
        """Return the files that are needed there, besides the script and what it imports.

        Args:
            beginning: Is told by what it knows that nothing of the script is left.
            keep: Whether the directory is in use beyond the script's end.
        """
        assert self._server
        beginning.secret = secrets.token_hex(8)
        beginning.chosen = self._server.number
        return {SECRET: beginning.secret, **({KEEP: ""} if keep else {})}

    def command(self, directory: str, beginning: Beginning, mode: str, arguments: Sequence[str]) -> str:
        """Return shell text that asks for the script, and stands for it.

        Args:
            directory: The script's.
            beginning: Hears that it begins.
            mode: The mode.
            arguments: Its arguments.
        """
        assert self._server
        pythons = self._kind.pythons
        job = job_text(beginning.word, mode, list(arguments), pythons.candidates, pythons.search_path)
        variables = script_variables(directory, self._allowed, self._session)
        return asking(self._server, directory, job, variables, beginning.word)

    def withdraw(self, directory: str) -> None:
        """Have the script not begin any more, if it has not yet: then its shell ends."""
        if self._env.capabilities.same_machine:
            with contextlib.suppress(OSError):
                _withdraw_here(directory)
            return
        with contextlib.suppress(TerminalError):
            self._env.internal.execute(withdrawing(directory), timeout=_WITHDRAWAL_LIMIT)

    def took(self, *, took: bool) -> None:
        """Note whether the server has taken the script."""
        if self._server and took:
            self._servers.took(self._kind)
        elif self._server:
            self._servers.failed(self._kind, self._server)

    def see_to(self) -> None:
        """Have a server ready for the next script."""
        self._servers.see_to(self._env, self._kind)


def _withdraw_here(directory: str) -> None:
    withdrawn = f"{directory}/{WITHDRAWN}"
    os.rename(f"{directory}/in", withdrawn)  # noqa: PTH104
    pipe = os.open(withdrawn, os.O_RDWR | os.O_NONBLOCK)
    try:
        os.write(pipe, b"cold\n")
    finally:
        os.close(pipe)
