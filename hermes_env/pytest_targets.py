"""What the fixtures of the pytest plugin hand out: environments in targets that tests share, or have for themselves."""

from __future__ import annotations

import contextlib
import re
import secrets
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Self

import pytest

from environments import BaseEnvironment, EnvironmentLostError, SettingsError, TerminalError, create_environment
from environments.files import removing
from environments.registry import check_backend_name
from environments.settings import RESOURCE_SETTINGS

_IMAGES = ("docker", "singularity", "modal", "daytona")
"""The backends that have an image behind their name and a colon."""
_JOINED_BY: Mapping[str, str] = {
    "docker": "container",
    "singularity": "instance",
    "modal": "sandbox",
    "daytona": "sandbox",
}
"""The setting by which an environment of a backend runs in the target of another."""
_MACHINES = ("local", "ssh")
"""The backends of which all environments run on the same machine."""
_SSH = re.compile(r"(?:(.+)@)?(?:\[([^]]+)\]|([^@:\[\]]+))(?::(\d+))?")
_NEW_DIRECTORY = 'd=${{TMPDIR:-/tmp}}/hermes-test-{word} && mkdir -m 700 -- "$d" && printf %s "$d"'


def check_backend(name: object) -> None:
    """Raise ValueError unless a backend has this name."""
    try:
        check_backend_name(str(name), "--environment")
    except SettingsError as error:
        raise ValueError(str(error).partition(": ")[2]) from None


def settings_of(spec: str) -> tuple[str, dict[str, object]]:
    """Return the backend and its settings that a text such as `docker:python:3.12` or `ssh:me@host:22` stands for.

    Raises:
        ValueError: It says nothing that could be.
    """
    backend, colon, where = spec.partition(":")
    check_backend(backend)
    if not colon:
        return backend, {}
    if backend == "ssh":
        return backend, _ssh_settings(spec, where)
    if backend not in _IMAGES:
        raise ValueError(f"{spec!r}: backend {backend!r} takes nothing behind its name; see config.yaml")
    if not where:
        raise ValueError(f"{spec!r} names no image behind the colon; name one, or leave out the colon")
    return backend, {"image": where}


def _ssh_settings(spec: str, where: str) -> dict[str, object]:
    found = _SSH.fullmatch(where)
    if not found:
        raise ValueError(f"{spec!r} names no host; give ssh:HOST, ssh:USER@HOST or ssh:USER@HOST:PORT")
    user, address, name, port = found.groups()
    return {"host": address or name, **({"user": user} if user else {}), **({"port": int(port)} if port else {})}


class Targets:
    """The targets of one kind that the tests of one process run in.

    Args:
        spec: Which, see `settings_of`.
    """

    def __init__(self, spec: str) -> None:
        self._spec = spec
        self._backend, self._settings = settings_of(spec)
        self._kept: BaseEnvironment | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._kept:
            self._kept.cleanup()

    def own(self, settings: Mapping[str, object]) -> contextlib.AbstractContextManager[BaseEnvironment]:
        """Make an environment with a target of its own for the block, but where that is one machine for all.

        Args:
            settings: Those of `create_environment` that it has besides those of the kind.
        """
        return self._given(partial(self._made, settings), self._keeper if self._backend in _MACHINES else None)

    def shared(self) -> contextlib.AbstractContextManager[BaseEnvironment]:
        """Make an environment for the block in the target that all tests share, if the backend can join one."""
        known = self._backend in _JOINED_BY or self._backend in _MACHINES
        return self._given(self._another, self._keeper if known else None)

    @contextlib.contextmanager
    def _given(
        self, make: Callable[[], BaseEnvironment], keeper: Callable[[], BaseEnvironment] | None
    ) -> Iterator[BaseEnvironment]:
        """Make an environment for the block, whose session is in a new directory.

        Args:
            make: Makes it.
            keeper: Returns another one in its target, which can remove the directory when nothing of it is left.
        """
        with contextlib.ExitStack() as stack:
            try:
                directory = stack.enter_context(_new_directory(keeper())) if keeper else ""
                env = stack.enter_context(make())
                directory = directory or stack.enter_context(_new_directory(env))
                if not (entered := env.execute(f"cd -- {shlex.quote(directory)}")).ok:
                    raise TerminalError(entered.output)
            except TerminalError as error:
                pytest.fail(f"environment {self._spec}: {error}", pytrace=False)
            yield env

    def _made(self, settings: Mapping[str, object]) -> BaseEnvironment:
        return create_environment(self._backend, **{**self._settings, **settings})

    def _keeper(self) -> BaseEnvironment:
        """Return the environment whose target the tests share."""
        if self._kept is None:
            self._kept = self._made({})
        return self._kept

    def _another(self) -> BaseEnvironment:
        """Return an environment in that target."""
        if self._backend not in _JOINED_BY:
            return self._made({})
        kept = self._keeper()
        settings = kept.settings
        joined = replace(
            settings,
            own=type(settings.own)(**{_JOINED_BY[self._backend]: kept.target.id}),
            container_persistent=False,
            default_limits=frozenset(),
            **dict.fromkeys(RESOURCE_SETTINGS),  # type: ignore[arg-type]  # they are that target's
        )
        env = type(kept).create(joined)
        env.gate.rules = kept.gate.rules
        return env


@contextlib.contextmanager
def _new_directory(env: BaseEnvironment) -> Iterator[str]:
    """Make a directory in a target for the block, and return its path."""
    make = _NEW_DIRECTORY.format(word=secrets.token_hex(6))
    try:
        made = env.internal.execute(make)
    except EnvironmentLostError:  # since its last command: there is another target now
        made = env.internal.execute(make)
    if not made.ok:
        raise TerminalError(f"no directory for a test can be made: {made.output.strip()}")
    try:
        yield made.output
    finally:
        with contextlib.suppress(TerminalError):  # if the target is gone, so is the directory
            env.internal.execute(removing(made.output))
