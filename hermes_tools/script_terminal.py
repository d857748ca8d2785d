"""`terminal` as a script gets it."""

from __future__ import annotations

from environments.base import BaseEnvironment
from environments.errors import DeniedError
from hermes_tools.model_output import with_notice
from hermes_tools.terminal_result import TerminalResult, answer, captured, denied, refused


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
        background: Not available in a script: refused.
        pty: Not available in a script: refused.

    Returns:
        A dict with output (standard error merged in, as the command wrote it), exit_code, and error: None, or why the
        command was ended, such as "timed out after 5 s". A command that fails by itself has an exit code and no error.
        note, where there is something to say, tells what the exit code means (grep's 1 is no error), or which limit the
        command was killed for. One that is not allowed is not run: exit code 126, and error says why.
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
        return denied(denial)
    except (TypeError, ValueError) as error:
        return refused(error)
    return answer(env, command, timeout, workdir, result, with_notice(captured(result)))
