"""A sandbox for deepagents on every backend, see docs/plugs/deepagents.md."""

from __future__ import annotations

import math

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

from environments import BaseEnvironment, TerminalError
from environments.model_view import ModelView
from environments.plain_number import plain_number
from hermes_env.plugs.awaiting import Threads
from hermes_tools.model_output import captured, with_notice

_CODES = {
    FileNotFoundError: FILE_NOT_FOUND,
    PermissionError: PERMISSION_DENIED,
    IsADirectoryError: IS_DIRECTORY,
    NotADirectoryError: INVALID_PATH,
}


class HermesSandbox(BaseSandbox):
    """Gives deepagents' tools an environment to work in.

    Commands and files of one conversation may come side by side, so that each command is one of its own: a `cd` or an
    export does not reach the next. Of what commands print, secrets are taken out, as the environment's settings say.

    Args:
        env: The environment. It stays the caller's, who cleans it up.
        session: Whether commands run one after the other in the environment's session, and share its directory,
            exports and functions.
    """

    def __init__(self, env: BaseEnvironment, *, session: bool = False) -> None:
        self.env = env
        self._run = env.execute if session else env.execute_oneshot
        self._threads = Threads()

    @property
    def id(self) -> str:
        """What the target's engine or service knows it by. Starts the environment when it has not been started."""
        return self.env.target.id

    def execute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:
        """Run a command.

        Args:
            command: Shell text.
            timeout: Seconds; 0 is no limit, and None what the environment's settings say.

        Returns:
            Output with standard error in it, exit code, and whether something was left out of the middle.

        Raises:
            TerminalError: The environment could not be started, or was lost.
        """
        result = self._run(command, timeout=math.inf if timeout == 0 else timeout)
        # deepagents reads files by commands, too, and takes apart what those print: nothing but secrets is taken out.
        view = ModelView(self.env.model_view().redactor, strip=False)
        output = with_notice(view.captured(captured(result)))
        if result.timed_out:
            limit = self.env.settings.timeout if timeout is None else timeout
            output += f"\nError: Command timed out after {plain_number(limit)} seconds"
        return ExecuteResponse(output, result.exit_code, truncated=bool(result.omitted_bytes))

    async def aexecute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:
        """Run a command as `execute` does. One that nobody awaits any more is ended in the target."""
        return await self._threads.call(self.execute, command, timeout=timeout)

    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        """Write files, each with the directories above it, and say of each what went wrong, if anything did."""
        return [FileUploadResponse(path, self._upload(path, content)) for path, content in files]

    async def aupload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        """Write files as `upload_files` does, until nobody awaits it any more."""
        return await self._threads.call(self.upload_files, files)

    def _upload(self, path: str, content: bytes) -> str | None:
        if not path.startswith("/"):
            return INVALID_PATH
        try:
            self.env.write_bytes(path, content)
        except (TerminalError, OSError) as error:
            return _code(error)
        return None

    def download_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        """Read files, and say of each what went wrong, if anything did."""
        return [self._download(path) for path in paths]

    async def adownload_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        """Read files as `download_files` does, until nobody awaits it any more."""
        return await self._threads.call(self.download_files, paths)

    def _download(self, path: str) -> FileDownloadResponse:
        if not path.startswith("/"):
            return FileDownloadResponse(path, error=INVALID_PATH)
        try:
            return FileDownloadResponse(path, self.env.read_bytes(path))
        except (TerminalError, OSError) as error:
            return FileDownloadResponse(path, error=_code(error))


def _code(error: Exception) -> str:
    """Return deepagents' word for an error, or where it has none what the error says."""
    return next((code for kind, code in _CODES.items() if isinstance(error, kind)), str(error))
