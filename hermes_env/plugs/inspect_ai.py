"""Sandboxes for inspect_ai on every backend: `sandbox="hermes"`, see docs/plugs/inspect_ai.md."""

from __future__ import annotations

import contextlib
import errno
import math
import os
import shlex
from functools import partial
from typing import Any

import anyio
from inspect_ai import util

from environments import TerminalError, UnsupportedError, create_environment, inventory, load_settings, registry
from environments.result import DENIED_EXIT_CODE
from hermes_env.plugs.awaiting import Threads
from hermes_env.plugs.backend_config import BackendConfig

_NEW = 'cd -- "$(mktemp -d)" && pwd'
_Sandboxes = dict[str, Any]


class HermesSandboxConfig(BackendConfig):
    """What samples run in, see `BackendConfig`. All settings that are not named here are those of an environment."""

    sandboxes: dict[str, dict[str, Any]] = {"default": {}}  # noqa: RUF012  # pydantic copies it
    """The sandboxes of a sample by name: the settings of each, over those of all. The first is the default."""

    def each(self) -> dict[str, dict[str, Any]]:
        """Return the arguments of `create_environment` for each sandbox of a sample, by its name."""
        return {name: {**self.arguments, **own} for name, own in self.sandboxes.items()}


@util.sandboxenv(name="hermes")
class HermesSandboxEnvironment(util.SandboxEnvironment):
    """A sandbox of one sample: an environment, whose directory is what relative paths are taken from."""

    config_deserialize = HermesSandboxConfig.model_validate

    def __init__(self, settings: dict[str, Any]) -> None:
        super().__init__()
        self.env = create_environment(**settings)
        self._call = Threads(util.SandboxUnavailableError).call
        self._made = ""  # the directory, if it was made for the sample

    def _start(self) -> None:
        """Go to a new directory where others work, too, and none is set; also where nothing can be written to."""
        is_shared = self.env.target.kind in ("machine", "host") and self.env.settings.cwd is None
        self._made = self.env.execute(_NEW if is_shared else f"[ -w . ] || {{ {_NEW}; }}").output.strip()

    def _end(self) -> None:
        with self.env, contextlib.suppress(TerminalError):  # there may be nothing left to remove it from
            if self._made:
                self.env.remove(self._made, recursive=True)

    @classmethod
    async def task_init(cls, task_name: str, config: object) -> None:
        """Check the settings, and look for what the backends need."""
        for settings in HermesSandboxConfig.read(config).each().values():
            loaded = load_settings(**settings)
            await Threads().call(registry.backend_class(loaded.env).probe, loaded)

    @classmethod
    async def sample_init(cls, task_name: str, config: object, metadata: dict[str, str]) -> _Sandboxes:
        """Start the sandboxes of a sample."""
        sandboxes = {name: cls(settings) for name, settings in HermesSandboxConfig.read(config).each().items()}
        try:
            for sandbox in sandboxes.values():
                await sandbox._call(sandbox._start)
        except BaseException:
            await cls.sample_cleanup(task_name, config, sandboxes, interrupted=True)
            raise
        return sandboxes

    @classmethod
    async def sample_cleanup(cls, task_name: str, config: object, environments: _Sandboxes, interrupted: bool) -> None:
        """Remove the sandboxes of a sample, and what was made for it."""
        with anyio.CancelScope(shield=True):
            for sandbox in environments.values():
                await sandbox._call(sandbox._end)

    @classmethod
    async def cli_cleanup(cls, id: str | None) -> None:
        """Remove what killed processes have left behind, on all backends, as `hermes-env gc` does."""
        await Threads().call(inventory.collect_garbage)

    def default_polling_interval(self) -> float:
        """Return how often services are asked for requests, in seconds."""
        return 0.2

    async def exec(
        self,
        cmd: list[str],
        input: str | bytes | None = None,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        user: str | None = None,
        timeout: int | None = None,
        timeout_retry: bool = True,
        concurrency: bool = True,
    ) -> util.ExecResult[str]:
        """Run a command, beside all others. One that takes too long was ended, and is not tried again."""
        takes_turn = concurrency and self.env.backend in ("local", "bubblewrap")
        turn = util.concurrency("subprocesses", os.cpu_count() or 1) if takes_turn else contextlib.nullcontext()
        run, most = partial(self.env.execute_oneshot, cmd, stderr="separate"), util.SandboxEnvironmentLimits
        limits = {"timeout": timeout or math.inf, "max_output_bytes": most.MAX_EXEC_OUTPUT_SIZE}
        try:
            if self._made and user not in (None, "root"):  # the directory is of this user alone, as mktemp makes it
                await self._call(self.env.execute_oneshot, ["chmod", "711", self._made])
            async with turn:
                result = await self._call(run, stdin=input, cwd=cwd, env=env, user=user, **limits)
        except UnsupportedError as error:
            raise util.SandboxUserUnsupportedError(str(error)) from error
        stderr = result.stderr or ""
        if result.timed_out:
            late = TimeoutError(f"the command was ended after {timeout} seconds")
            late.truncated_output = result.output + stderr  # type: ignore[attr-defined]  # inspect_ai looks for it
            raise late
        if result.omitted_bytes:
            raise util.OutputLimitExceededError(most.MAX_EXEC_OUTPUT_SIZE_STR, result.output + stderr)
        if result.exit_code == DENIED_EXIT_CODE and "permission denied" in stderr.casefold():
            raise PermissionError(stderr)
        return util.ExecResult(result.ok, result.exit_code, result.output, stderr)

    async def write_file(self, file: str, contents: str | bytes) -> None:
        """Write a file, with the directories above it. One whose mode forbids it stays, which we would replace."""
        allowed = f"[ -w {shlex.quote(file)} ] || [ ! -e {shlex.quote(file)} ]"
        if not (await self._call(self.env.execute_oneshot, allowed)).ok:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), file)
        await self._call(self.env.write_bytes, file, contents.encode() if isinstance(contents, str) else contents)

    async def read_file(self, file: str, text: bool = True) -> str | bytes:
        """Return a file: text as it is, with its line ends, or bytes."""
        most = util.SandboxEnvironmentLimits
        data = await self._call(self.env.read_bytes, file, limit=most.MAX_READ_FILE_SIZE + 1)
        if len(data) > most.MAX_READ_FILE_SIZE:
            raise util.OutputLimitExceededError(most.MAX_READ_FILE_SIZE_STR, None)
        return data.decode() if text else data

    async def connection(self, *, user: str | None = None) -> util.SandboxConnection:
        """Return how a person gets in."""
        target = await self._call(lambda: self.env.target)
        enter = target.enter if user is None else target.enter_as(user)
        if not enter:
            raise NotImplementedError(f"no program gets a person into {target} as {user or 'its own user'}")
        container = target.name or target.id if target.kind == "container" else None
        return util.SandboxConnection(type="hermes", command=shlex.join(enter), container=container)
