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
    """Gives deepagents' tools an environment to work in.

    Commands and files of one conversation may come side by side. Each command runs on its own: a `cd` or an export
    does not reach the next. Secrets are taken out of the output, as the environment's settings say.

    Args:
        env: The environment. The caller cleans it up.
        session: Whether commands run one after the other in the environment's session, and share its directory,
            exports and functions.
    """

    def __init__(self, env: BaseEnvironment | AsyncEnvironment, *, session: bool = False) -> None:
        self.env = env.sync if isinstance(env, AsyncEnvironment) else env
        self._awaited = AsyncEnvironment.of(self.env)
        self._run = self.env.execute if session else self.env.execute_oneshot
        self._arun = self._awaited.execute if session else self._awaited.execute_oneshot

    @property
    def id(self) -> str:
        """The id of the target at its engine or service. Asking for it starts the environment."""
        return self.env.target.id

    def execute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:
        """Run a command.

        Args:
            command: Shell text.
            timeout: Seconds; 0 is no limit, and None is the environment's setting.

        Returns:
            Standard output and standard error as one text, the exit code, and whether bytes were left out.

        Raises:
            TerminalError: The environment could not be started, or was lost.
        """
        return self._response(self._run(command, timeout=math.inf if timeout == 0 else timeout), timeout)

    async def aexecute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:
        """Run a command as `execute` does. When the task is cancelled, the command is ended in the target."""
        return self._response(await self._arun(command, timeout=math.inf if timeout == 0 else timeout), timeout)

    def _response(self, result: CommandResult, timeout: int | None) -> ExecuteResponse:
        # deepagents parses the output of its own commands, so that terminal controls stay.
        output = self.env.model_view(strip=False).captured(result.captured).with_count()
        if result.timed_out:
            limit = self.env.settings.timeout if timeout is None else timeout
            limit_text = f"{limit:.3f}".rstrip("0").rstrip(".")
            output += f"\nError: Command timed out after {limit_text} seconds"
        return ExecuteResponse(output, result.exit_code, truncated=bool(result.omitted_bytes))

    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        """Write files, each with the directories above it. The response for a file that failed has an error."""
        responses = [FileUploadResponse(path) for path, _ in files]
        for response, (path, content) in zip(responses, files, strict=True):
            with _noting_errors(response):
                self.env.write_bytes(_absolute(path), content)
        return responses

    async def aupload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        """Write files as `upload_files` does."""
        responses = [FileUploadResponse(path) for path, _ in files]
        for response, (path, content) in zip(responses, files, strict=True):
            with _noting_errors(response):
                await self._awaited.write_bytes(_absolute(path), content)
        return responses

    def download_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        """Read files. The response for a file that failed has an error."""
        responses = [FileDownloadResponse(path) for path in paths]
        for response in responses:
            with _noting_errors(response):
                response.content = self.env.read_bytes(_absolute(response.path))
        return responses

    async def adownload_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        """Read files as `download_files` does."""
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
    """Put an error of the block into a response: deepagents' code for it, or its message."""
    try:
        yield
    except (TerminalError, OSError) as error:
        response.error = next((code for kind, code in _CODES.items() if isinstance(error, kind)), str(error))
