"""The tool `terminal`: run a shell command in the session, in a form for models and in a form for scripts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NotRequired, TypedDict

from environments.base import BaseEnvironment
from environments.errors import DeniedError
from environments.options import check_seconds
from environments.output import BoundedCapture, Channel
from environments.plain_number import plain_number
from environments.result import DENIED_EXIT_CODE, TIMEOUT_EXIT_CODE, CommandResult
from hermes_tools.background.notices import Notice, NoticeBox
from hermes_tools.background.process import start
from hermes_tools.exit_codes import meaning_of
from hermes_tools.interruption import ToolInterruptedError, wait_for
from hermes_tools.model_output import for_model, shown_live

_NOT_RUN_EXIT_CODE = -1
"""The exit code for invalid arguments; no command was run."""


class TerminalResult(TypedDict):
    """The result of `terminal`."""

    output: str
    exit_code: int
    error: str | None
    process_id: NotRequired[str]
    note: NotRequired[str]
    notices: NotRequired[list[Notice]]


def terminal(
    env: BaseEnvironment,
    command: str,
    timeout: float | None = None,
    workdir: str | None = None,
    background: bool = False,
    pty: bool = False,
    notify_on_exit: bool = False,
    watch: Sequence[str] = (),
) -> TerminalResult:
    """Run a shell command in the session. Working directory and exports persist between calls.

    Args:
        command: Shell text of any length, also of several lines.
        timeout: Seconds until the command and all processes it started are ended; the environment's setting unless
            given. Give more for long builds and tests. No limit in the background.
        workdir: Directory for this one command; that of the session unless given.
        background: Start the command beside the session and return at once, with a process_id.
        pty: Give the command a terminal, for programs that need one (REPLs, progress bars), and a process of its own
            beside the session.
        notify_on_exit: With background: report the end with the next result of `terminal` or `process`, in notices.
        watch: With background: report in the same way each output line with one of these texts, or with a match of one
            of these regular expressions (RE2), such as ['listening on', 'Traceback']; 16 at most, of 512 characters
            each.

    Returns:
        A dict with output (standard error merged in), exit_code, and error: None, or why the command was ended or could
        not be run, such as "timed out after 5 s". A failing command has an exit code and no error. In the background:
        process_id too. The output is without terminal controls and the values of secrets, by the settings `strip_ansi`
        and `redact_secrets`; of more than 50 KB head and tail are kept, with a line for the missing bytes. note, if
        there is any, has the meaning of the exit code (grep's 1 is no error), or the limit that killed the command.
        notices, if there are any, report events in the background. A command that is not allowed is not run: exit code
        126, and error has the reason; a command that cannot be run with these arguments has exit code -1.

    Raises:
        TerminalError: The environment could not be started, was lost, or has no pty.
    """
    try:
        if background:
            result = _start_in_background(env, command, workdir, pty, notify_on_exit, watch)
        elif notify_on_exit or watch:
            raise ValueError(
                "notify_on_exit and watch are for background=True: a command in the foreground is waited for"
            )
        elif pty:
            result = _run_in_pty(env, command, timeout, workdir)
        else:
            result = _run_in_session(env, command, timeout, workdir)
    except DeniedError as denial:
        result = _denied(denial)
    except (TypeError, ValueError, ToolInterruptedError) as error:
        result = _refused(error)
    # The caller does not have the id of a new process yet, so its notices come later.
    if notices := env.attachments.get(NoticeBox).drain(excluding=result.get("process_id", "")):
        result["notices"] = notices
    return result


def script_terminal(
    env: BaseEnvironment,
    command: str,
    timeout: float | None = None,
    workdir: str | None = None,
    background: bool = False,
    pty: bool = False,
) -> TerminalResult:
    """Run a shell command in the session. Working directory and exports persist between calls.

    Args:
        command: Shell text of any length.
        timeout: Seconds until the command is ended; None takes the environment's setting.
        workdir: Directory for this one command.
        background: Not available in a script: refused.
        pty: Not available in a script: refused.

    Returns:
        A dict with output (as written, standard error merged in), exit_code, and error: None, or why the command was
        ended, such as "timed out after 5 s". A failing command has an exit code and no error. note, if there is any,
        has the meaning of the exit code (grep's 1 is no error), or the limit that killed the command. A command that is
        not allowed is not run: exit code 126, and error has the reason.
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
    except (TypeError, ValueError) as error:
        return _refused(error)
    return _answer(env, command, timeout, workdir, result, result.captured.with_count())


def _run_in_session(env: BaseEnvironment, command: str, timeout: float | None, workdir: str | None) -> TerminalResult:
    view = env.model_view()
    with shown_live(view) as on_output:
        result = env.execute(command, cwd=workdir, timeout=timeout, on_output=on_output)
    return _answer(env, command, timeout, workdir, result, for_model(view, result.captured))


def _start_in_background(
    env: BaseEnvironment, command: str, workdir: str | None, pty: bool, notify_on_exit: bool, watch: Sequence[str]
) -> TerminalResult:
    process_id = start(env, command, workdir, pty, notify_on_exit, watch).process_id
    output = f"started in the background as process {process_id}"
    return {"output": output, "exit_code": 0, "error": None, "process_id": process_id}


def _run_in_pty(env: BaseEnvironment, command: str, timeout: float | None, workdir: str | None) -> TerminalResult:
    seconds = env.settings.timeout if timeout is None else check_seconds("timeout", timeout)
    kept = _HeadAndTail(env.settings.max_output_bytes)
    process = env.start(command, cwd=workdir, pty=True, sink=kept)
    try:
        ended = wait_for(lambda limit: process.wait(limit) is not None, seconds)
    except BaseException:  # such as KeyboardInterrupt: no caller waits for the command
        if process.running:
            process.kill()
        raise
    if not ended:
        process.kill()
    exit_code = process.wait() if ended else None
    result = CommandResult("", TIMEOUT_EXIT_CODE if exit_code is None else exit_code, timed_out=not ended)
    return _answer(env, command, timeout, workdir, result, for_model(env.model_view(), kept.capture.text()))


def _denied(denial: DeniedError) -> TerminalResult:
    return {"output": "", "exit_code": DENIED_EXIT_CODE, "error": f"denied: {denial.reason}"}


def _refused(error: Exception) -> TerminalResult:
    return {"output": "", "exit_code": _NOT_RUN_EXIT_CODE, "error": str(error)}


def _answer(
    env: BaseEnvironment, command: str, timeout: float | None, workdir: str | None, result: CommandResult, output: str
) -> TerminalResult:
    error = "interrupted" if result.interrupted else None
    if result.timed_out:
        error = f"timed out after {plain_number(env.settings.timeout if timeout is None else timeout)} s"
    shown = TerminalResult(output=output, exit_code=result.exit_code, error=error)
    if note := result.note or (None if error else meaning_of(command, result.exit_code, workdir)):
        shown["note"] = note
    return shown


class _HeadAndTail:
    """A sink for the head and the tail of an output. See `OutputSink`."""

    separate = False

    def __init__(self, limit: int) -> None:
        self.capture = BoundedCapture(limit)

    def add(self, channel: Channel, data: bytes) -> None:
        """Add bytes."""
        self.capture.add(data)
