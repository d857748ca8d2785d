"""Starting a command in the background, and telling of it."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Sequence

from environments.base import BaseEnvironment
from hermes_tools.background.notices import Notice, NoticeBox
from hermes_tools.background.output import ProcessOutput
from hermes_tools.background.process import BackgroundProcess
from hermes_tools.background.table import table_of
from hermes_tools.background.watch import Watch

_LONGEST_TEXT = 500
_LONGEST_COMMAND = 200


def start(
    env: BaseEnvironment, command: str, workdir: str | None, pty: bool, notify_on_exit: bool, watch: Sequence[str]
) -> BackgroundProcess:
    """Start a command in the background, and know it from then on.

    Args:
        env: Where it runs.
        command: Shell text.
        workdir: Its directory; None is the session's.
        pty: Whether to give it a terminal.
        notify_on_exit: Whether its end is told.
        watch: What is told when it prints it.

    Raises:
        TerminalError: As `start` of the environment does.
        ValueError: One of the patterns cannot be watched for.
    """
    box = env.attachments.get(NoticeBox)
    process_id = secrets.token_hex(6)
    is_known = threading.Event()

    def matched(pattern: str, line: str, count: int) -> None:
        is_known.wait()  # or a callback would be told of a process that nobody knows yet
        if not box.count_again(process_id, pattern, count):
            box.put(_watch_notice(env, process_id, command, pattern, line, count))

    def is_full(pattern: str) -> bool:
        return box.is_full(process_id, pattern)

    output = ProcessOutput(Watch(watch, matched, is_full).feed if watch else None)
    table = table_of(env)
    try:
        process = env.start(command, cwd=workdir, pty=pty, sink=output)
        started = BackgroundProcess(process_id, command, process, output, env)
        table.add(started)
    finally:
        is_known.set()

    def ended(exit_code: int | None) -> None:
        started.note_end(exit_code)
        try:
            if notify_on_exit:
                box.put(_exit_notice(env, started))
        finally:
            started.let_know()
            table.forget_old()

    process.add_done_callback(ended)
    return started


def shown_command(env: BaseEnvironment, command: str) -> str:
    """Return a command as it is shown in a list: without secrets, and cut to 200 characters."""
    shown = env.model_view().value(command)
    return shown if len(shown) <= _LONGEST_COMMAND else f"{shown[: _LONGEST_COMMAND - 3]}..."


def _watch_notice(env: BaseEnvironment, process_id: str, command: str, pattern: str, line: str, count: int) -> Notice:
    # The line may have come in part, and at both ends a secret with it.
    text = env.model_view().part(line, cut_before=True, cut_behind=True)[:_LONGEST_TEXT]
    return {
        "process_id": process_id,
        "kind": "watch",
        "command": shown_command(env, command),
        "pattern": pattern,
        "text": text,
        "count": count,
    }


def _exit_notice(env: BaseEnvironment, process: BackgroundProcess) -> Notice:
    return {
        "process_id": process.process_id,
        "kind": "exit",
        "command": shown_command(env, process.command),
        "status": process.end_status,
        "exit_code": process.exit_code,
    }
