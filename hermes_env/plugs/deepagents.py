"""A sandbox for deepagents on every backend, see docs/agents.md."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator

from deepagents.backends.protocol import (
    FILE_NOT_FOUND,
    INVALID_PATH,
    IS_DIRECTORY,
    PERMISSION_DENIED,
    ExecuteResponse,
    FileDownloadResponse,
    FileUploadResponse,
)
from deepagents.backends.sandbox import BaseSandbox

from environments import BaseEnvironment, CommandResult, TerminalError
from hermes_env.aio import AsyncEnvironment

_CODES = {
    FileNotFoundError: FILE_NOT_FOUND,
    PermissionError: PERMISSION_DENIED,
    IsADirectoryError: IS_DIRECTORY,
    NotADirectoryError: INVALID_PATH,
}


class HermesSandbox(BaseSandbox):
    """Runs deepagents' tools in one of our environments.

    Several commands and file transfers may run at once. Each command runs in a new shell: a `cd` or an export does not
    affect the next command. The environment's settings remove secrets from the output.

    Args:
        env: The environment, cleaned up by the caller.
        session: True to run commands one after another in the environment's session, with shared directory, exports
            and functions.
    """

    def __init__(self, env: BaseEnvironment | AsyncEnvironment, *, session: bool = False) -> None:
        self.env = env.sync if isinstance(env, AsyncEnvironment) else env
        self._awaited = AsyncEnvironment.of(self.env)
        self._run = self.env.execute if session else self.env.execute_oneshot
        self._arun = self._awaited.execute if session else self._awaited.execute_oneshot

    @property
    def id(self) -> str:
        return self.env.target.id

    def execute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:
        # A time-out of 0 is no limit, and None is the environment's setting.
        return self._response(self._run(command, timeout=math.inf if timeout == 0 else timeout), timeout)

    async def aexecute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:
        return self._response(await self._arun(command, timeout=math.inf if timeout == 0 else timeout), timeout)

    def _response(self, result: CommandResult, timeout: int | None) -> ExecuteResponse:
        # Terminal controls stay, because deepagents parses the output of its own commands.
        output = self.env.model_view(strip=False).captured(result.captured).with_count()
        if result.timed_out:
            limit = self.env.settings.timeout if timeout is None else timeout
            limit_text = f"{limit:.3f}".rstrip("0").rstrip(".")
            output += f"\nError: Command timed out after {limit_text} seconds"
        return ExecuteResponse(output, result.exit_code, truncated=bool(result.omitted_bytes))

    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        responses = [FileUploadResponse(path) for path, _ in files]
        for response, (path, content) in zip(responses, files, strict=True):
            with _noting_errors(response):
                self.env.write_bytes(_absolute(path), content)
        return responses

    async def aupload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        responses = [FileUploadResponse(path) for path, _ in files]
        for response, (path, content) in zip(responses, files, strict=True):
            with _noting_errors(response):
                await self._awaited.write_bytes(_absolute(path), content)
        return responses

    def download_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        responses = [FileDownloadResponse(path) for path in paths]
        for response in responses:
            with _noting_errors(response):
                response.content = self.env.read_bytes(_absolute(response.path))
        return responses

    async def adownload_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        responses = [FileDownloadResponse(path) for path in paths]
        for response in responses:
            with _noting_errors(response):
                response.content = await self._awaited.read_bytes(_absolute(response.path))
        return responses


def _absolute(path: str) -> str:
    if not path.startswith("/"):
        raise NotADirectoryError(path)
    return path


@contextlib.contextmanager
def _noting_errors(response: FileUploadResponse | FileDownloadResponse) -> Iterator[None]:
    """Store an error of the block in a response: deepagents' error code, or the message."""
    try:
        yield
    except (TerminalError, OSError) as error:
        response.error = next((code for kind, code in _CODES.items() if isinstance(error, kind)), str(error))
