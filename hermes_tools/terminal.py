"""Run a shell command in the session."""

from __future__ import annotations

import math
import secrets
import threading
from typing import NotRequired, TypedDict

from environments.base import BaseEnvironment, Process
from environments.capture import CapturedText
from environments.errors import DeniedError, EnvironmentLostError
from environments.result import DENIED_EXIT_CODE, TIMEOUT_EXIT_CODE, CommandResult


class TerminalResult(TypedDict):
    """What `terminal` returns."""

    output: str
    exit_code: int
    error: str | None
    process_id: NotRequired[str]
    note: NotRequired[str]


_background: dict[str, Process] = {}
_background_lock = threading.Lock()


def terminal(
    env: BaseEnvironment,
    command: str,
    timeout: float | None = None,
    workdir: str | None = None,
    background: bool = False,
    pty: bool = False,
) -> TerminalResult:
    """Run a shell command in the session, which keeps its working directory and exports between calls.

    Args:
        command: Shell text of any length.
        timeout: Seconds until the command is ended; None takes the environment's setting. No limit in background.
        workdir: Directory for this one command.
        background: Start it and return at once; `background_process` gives its handle.
        pty: Give it a terminal. It then runs in a process of its own, beside the session.

    Returns:
        A dict with output (standard error merged in), exit_code, and error: None, or why the command was ended,
        such as "timed out after 5 s". A command that fails by itself has an exit code and no error. In the
        background: process_id too. The output is without terminal controls and the values of secrets, as the settings
        `strip_ansi` and `redact_secrets` say. note says which limit a command ran into that was killed for it. A
        command that is not allowed is not run: exit code 126, and error says why.

    Raises:
        TerminalError: The environment could not be started, was lost, or has no pty.
    """
    try:
        if background:
            return _start_in_background(env, command, workdir, pty)
        if pty:
            return _run_in_pty(env, command, timeout, workdir)
        return _run_in_session(env, command, timeout, workdir)
    except DeniedError as denial:
        return _denied(denial)


def _denied(denial: DeniedError) -> TerminalResult:
    return {"output": "", "exit_code": DENIED_EXIT_CODE, "error": f"denied: {denial.reason}"}


def _run_in_session(env: BaseEnvironment, command: str, timeout: float | None, workdir: str | None) -> TerminalResult:
    result = env.execute(command, cwd=workdir, timeout=timeout)
    output = env.model_view().captured(_captured(result))
    return _answer(env, timeout, result, output)


def script_terminal(
    env: BaseEnvironment,
    command: str,
    timeout: float | None = None,
    workdir: str | None = None,
    background: bool = False,
    pty: bool = False,
) -> TerminalResult:
    """Run a shell command in the session, which keeps its working directory and exports between calls.

    Args:
        command: Shell text of any length.
        timeout: Seconds until the command is ended; None takes the environment's setting.
        workdir: Directory for this one command.
        background: Not available in a script: raises.
        pty: Not available in a script: raises.

    Returns:
        A dict with output (standard error merged in, as the command wrote it), exit_code, and error: None, or why the
        command was ended, such as "timed out after 5 s". A command that fails by itself has an exit code and no error.
        note says which limit a command ran into that was killed for it. One that is not allowed is not run: exit code
        126, and error says why.
    """
    if background:
        raise ValueError(
            "background=True is not available in a script, which must leave nothing running: run the command in "
            "the foreground with a timeout, or run it from a thread of the script"
        )
    if pty:
        raise ValueError(
            "pty=True is not available in a script: run the command without a terminal, with its options for "
            "use without one (such as --yes, --batch or --no-pager)"
        )
    try:
        result = env.execute(command, cwd=workdir, timeout=timeout)
    except DeniedError as denial:
        return _denied(denial)
    return _answer(env, timeout, result, _captured(result))


def background_process(process_id: str) -> Process:
    """Return the handle of a command that `terminal(background=True)` started.

    Raises:
        KeyError: No such process, or it ended and another was started since.
    """
    with _background_lock:
        return _background[process_id]


def _start_in_background(env: BaseEnvironment, command: str, workdir: str | None, pty: bool) -> TerminalResult:
    process = env.start(command, cwd=workdir, pty=pty)
    process_id = secrets.token_hex(6)
    with _background_lock:
        for ended in [key for key, known in _background.items() if _has_ended(known)]:
            del _background[ended]
        _background[process_id] = process
    output = f"started in the background as process {process_id}"
    return {"output": output, "exit_code": 0, "error": None, "process_id": process_id}


def _has_ended(process: Process) -> bool:
    try:
        return process.poll() is not None
    except EnvironmentLostError:
        return True


def _run_in_pty(env: BaseEnvironment, command: str, timeout: float | None, workdir: str | None) -> TerminalResult:
    process = env.start(command, cwd=workdir, pty=True)
    seconds = env.settings.timeout if timeout is None else timeout
    exit_code = process.wait(None if math.isinf(seconds) else seconds)
    error = None
    if exit_code is None:
        process.kill()
        exit_code, error = TIMEOUT_EXIT_CODE, _timed_out(env, timeout)
    return {"output": env.model_view().output(process.read()), "exit_code": exit_code, "error": error}


def _timed_out(env: BaseEnvironment, timeout: float | None) -> str:
    return f"timed out after {env.settings.timeout if timeout is None else timeout:g} s"


def _captured(result: CommandResult) -> CapturedText:
    return CapturedText(result.output, result.omitted_bytes, result.omitted_at)


def _answer(env: BaseEnvironment, timeout: float | None, result: CommandResult, output: CapturedText) -> TerminalResult:
    error = _timed_out(env, timeout) if result.timed_out else "interrupted" if result.interrupted else None
    text = output.text
    if output.omitted_bytes:
        head, tail = text[: output.omitted_at], text[output.omitted_at :]
        text = f"{head}\n[{output.omitted_bytes} bytes of output omitted]\n{tail}"
    answer = TerminalResult(output=text, exit_code=result.exit_code, error=error)
    if result.note:
        answer["note"] = result.note
    return answer
