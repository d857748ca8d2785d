"""The tool `process`: control commands in the background of `terminal`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NotRequired, TypedDict

from environments.base import BaseEnvironment
from environments.errors import TerminalError
from environments.options import check_seconds
from hermes_tools.background.notices import Notice, take_notices
from hermes_tools.background.process import BackgroundProcess, BackgroundProcesses, shown_command
from hermes_tools.interruption import ToolInterruptedError
from hermes_tools.model_output import cut_for_model

Action = Literal["list", "poll", "log", "wait", "write", "submit", "kill"]


class ListedProcess(TypedDict):
    """A process in a list."""

    process_id: str
    command: str
    status: str
    started: str
    seconds: float
    exit_code: NotRequired[int | None]


class ProcessResult(TypedDict, total=False):
    """The result of `process`: `processes` for a list, `error` alone for a refused call, or the other keys."""

    processes: list[ListedProcess]
    process_id: str
    status: str
    exit_code: int | None
    output: str
    offset: int
    total_lines: int
    note: str
    error: str
    notices: list[Notice]


def process(
    env: BaseEnvironment,
    action: Action,
    process_id: str | None = None,
    data: str | None = None,
    timeout: float | None = None,
    offset: int = 0,
    limit: int = 200,
) -> ProcessResult:
    """Control a command in the background of `terminal`: read its output, wait for the end, send input, or end it.

    Args:
        action: `list` shows all processes; all other actions need process_id. `poll` gives the output since the last
            poll. `log` gives lines of the whole output, as often as wanted. `wait` waits for the end. `write` sends
            data to standard input unchanged, `submit` with a line feed added. `kill` ends the process and all processes
            started by it.
        process_id: The process_id that `terminal` returned.
        data: Text for `write` and `submit`.
        timeout: Seconds for `wait`, the environment's setting unless given. A process still running then goes on.
        offset: First line for `log`, counted from 0; a negative number counts from the end, such as -50 for the last 50
            lines.
        limit: Lines to return at most, for `log`.

    Returns:
        A dict. For `list`: processes, each with process_id, command, status, started, seconds and exit_code. For the
        others: process_id, status (running, exited, killed, or lost with the target), exit_code (None until the end)
        and output: for `poll`, `wait` and `kill` the output since the last of these; 50 KB at most, with a line in
        place of missing bytes. `log` has offset and total_lines too. The last 200 KB of an output are kept, for 30
        minutes after the end. note has the meaning of an exit code. error, instead or besides, has the reason of a
        failure. notices, if there are any, report events in the background.
    """
    env.touch()
    result = _result(env, action, process_id, data, timeout, offset, limit)
    if notices := take_notices(env):
        result["notices"] = notices
    return env.model_view().value(result)


def _result(
    env: BaseEnvironment,
    action: str,
    process_id: str | None,
    data: str | None,
    timeout: float | None,
    offset: int,
    limit: int,
) -> ProcessResult:
    if action == "list":
        return {"processes": [_listed(env, one) for one in env.attachments.get(BackgroundProcesses).all()]}
    actions: dict[str, Callable[[BackgroundProcess], ProcessResult]] = {
        "poll": _with_new_output,
        "log": lambda one: _log(env, one, offset, limit),
        "wait": lambda one: _wait(one, env.settings.timeout if timeout is None else timeout),
        "write": lambda one: _write(one, data, ""),
        "submit": lambda one: _write(one, data, "\n"),
        "kill": _kill,
    }
    act = actions.get(action)
    if act is None:
        return {"error": f"there is no action {action!r}; there are: list, {', '.join(actions)}"}
    known = env.attachments.get(BackgroundProcesses).find(process_id) if process_id else None
    if known is None:
        return {"error": _unknown(env, process_id)}
    try:
        return act(known)
    except (TypeError, ValueError, ToolInterruptedError) as error:
        return {"error": str(error)}
    except (BrokenPipeError, TerminalError) as error:
        return {**_state(known), "error": str(error)}


def _listed(env: BaseEnvironment, known: BackgroundProcess) -> ListedProcess:
    listed: ListedProcess = {
        "process_id": known.process_id,
        "command": shown_command(env, known.command),
        "status": known.status,
        "started": known.started.isoformat(timespec="seconds"),
        "seconds": round(known.seconds, 1),
    }
    if not known.running:
        listed["exit_code"] = known.exit_code
    return listed


def _unknown(env: BaseEnvironment, process_id: str | None) -> str:
    ids = ", ".join(one.process_id for one in env.attachments.get(BackgroundProcesses).all())
    known = f"there are: {ids}" if ids else "there are none; terminal(background=True) starts one"
    return f"process_id is needed; {known}" if process_id is None else f"there is no process {process_id!r}; {known}"


def _state(known: BackgroundProcess, output: str = "") -> ProcessResult:
    """Return the state of a process. Call it before reading the output, which is complete only after the end."""
    status = known.status
    state: ProcessResult = {
        "process_id": known.process_id,
        "status": status,
        "exit_code": None if status == "running" else known.exit_code,
        "output": output,
    }
    if status != "running":
        error, note = known.end_reason()
        if error:
            state["error"] = error
        if note:
            state["note"] = note
    return state


def _with_new_output(known: BackgroundProcess) -> ProcessResult:
    state = _state(known)
    state["output"] = cut_for_model(known.unread.next(final=state["status"] != "running"))
    return state


def _wait(known: BackgroundProcess, timeout: float) -> ProcessResult:
    if timeout != 0:
        known.wait(check_seconds("timeout", timeout))
    return _with_new_output(known)


def _kill(known: BackgroundProcess) -> ProcessResult:
    known.kill()
    return _with_new_output(known)


def _write(known: BackgroundProcess, data: str | None, end: str) -> ProcessResult:
    if data is None:
        raise TypeError("data is needed: the text to send")
    if not known.running:
        raise BrokenPipeError("the process has ended and takes no more input")
    known.input.write(data + end)
    return _state(known)


def _log(env: BaseEnvironment, known: BackgroundProcess, offset: int, limit: int) -> ProcessResult:
    if limit < 1:
        raise ValueError(f"limit is {limit}; give at least 1")
    state = _state(known)
    kept = known.output.kept()
    text = env.model_view().part(kept.text, cut_before=kept.dropped_bytes > 0, cut_behind=state["status"] == "running")
    lines = _lines(text)
    total = kept.dropped_lines + len(lines)
    first = min(max(offset if offset >= 0 else total + offset, kept.dropped_lines), total)
    shown = lines[first - kept.dropped_lines :][:limit]
    state |= {"output": cut_for_model("".join(shown)), "offset": first, "total_lines": total}
    if kept.dropped_bytes and first == kept.dropped_lines:
        dropped = f"the first {kept.dropped_bytes} bytes of the output are no longer kept"
        state["note"] = "; ".join(filter(None, (state.get("note"), dropped)))
    return state


def _lines(text: str) -> list[str]:
    lines = [line + "\n" for line in text.split("\n")]
    last = lines.pop()[:-1]
    return [*lines, last] if last else lines
