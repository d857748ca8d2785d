"""Line 4: time-outs, interrupts and scopes end all processes of a command; background processes."""

from __future__ import annotations

import re
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from environments.base import BaseEnvironment
from environments.cancellation import CancelScope
from environments.conformance.check import (
    Subject,
    beside,
    check,
    expect,
    expect_output,
    expect_raised,
    running,
    unique,
    wait_until,
)
from environments.errors import CallCancelledError, TerminalError
from environments.process import Process
from environments.result import INTERRUPT_EXIT_CODE, CommandResult

LIMIT = 1.0
PATIENCE = 30.0
"""Maximum seconds until an ended command returns, on a loaded machine."""


def _timed_out(env: BaseEnvironment, command: str) -> CommandResult:
    began = time.monotonic()
    result = env.execute(command, timeout=LIMIT)
    expect(result.timed_out and result.exit_code == 124, f"{command!r} times out with 124", result)
    expect(time.monotonic() - began < PATIENCE, "the return does not take for ever", result)
    return result


@check(4)
def a_timed_out_command_keeps_its_output_and_the_session(subject: Subject) -> None:
    env, name = subject.env, unique("V")
    home = env.cwd
    env.execute(f"export {name}=kept; cd /tmp")
    result = _timed_out(env, "echo so far; sleep 1000; echo never")
    expect(result.output == "so far\n", "the output so far is kept, and nothing runs after it", result)
    expect_output(env, f"pwd; echo ${name}; unset {name}; cd '{home}'", "/tmp\nkept\n")


@check(4)
def a_timeout_ends_the_whole_tree(subject: Subject) -> None:
    env = subject.env
    closing = "3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-; if [ -n \"${{BASH_VERSION-}}\" ]; then eval 'exec 29>&-'; fi"
    for start in (
        "sh -c ': {0}; sleep 1000; :'",
        "(sh -c ': {0}; sleep 1000; :' &); sleep 1000",
        "sh -c 'trap \"\" TERM; : {0}; while :; do sleep 1000; done'",
        "env -i sh -c ': {0}; sleep 1000; :' & sleep 1000",
        "while :; do sh -c ': {0}; sleep 1000; :'; done",
        f"(exec </dev/null >/dev/null 2>&1 {closing}; exec env -i sh -c ': {{0}}; sleep 1000; :') & sleep 1000",
        "if command -v setsid >/dev/null; then setsid sh -c ': {0}; sleep 1000; :' & fi; sleep 1000",
        "if command -v nohup >/dev/null; then nohup sh -c ': {0}; sleep 1000; :' >/dev/null 2>&1 & fi; sleep 1000",
    ):
        word = unique()
        _timed_out(env, start.format(word))
        gone = wait_until(lambda word=word: running(env, word) == 0, 2)  # type: ignore[misc]
        expect(gone, f"nothing is left of {start!r} two seconds after the return")
    expect_output(env, "echo after", "after\n")


@check(4)
def a_loop_of_builtins_is_ended(subject: Subject) -> None:
    env = subject.env
    _timed_out(env, "while :; do :; done")
    expect_output(env, "echo after", "after\n")


@check(4)
def a_command_that_ignores_every_signal_it_can_is_ended(subject: Subject) -> None:
    env = subject.env
    home = env.cwd
    _timed_out(env, "trap '' TERM INT HUP USR1 USR2; while :; do sleep 0.1; done")
    expect_output(env, "pwd", f"{home}\n")


@check(4)
def an_interrupt_ends_the_command(subject: Subject) -> None:
    env, word = subject.env, unique()
    arrived = threading.Event()
    command = f"echo so far; sh -c ': {word}; sleep 1000; :'"
    with beside(lambda: env.execute(command, timeout=300, on_output=lambda _: arrived.set())) as results:
        expect(arrived.wait(PATIENCE), "output comes while the command runs")
        expect(wait_until(lambda: running(env, word) > 0), "the command has begun")
        env.interrupt()
        expect(wait_until(lambda: bool(results), PATIENCE), "execute returns")
    result = results[0]
    expect(result.interrupted and not result.timed_out and result.exit_code == 130, "it says so", result)
    expect(result.output == "so far\n", "the output so far is kept", result)
    expect(wait_until(lambda: running(env, word) == 0, 2), "nothing is left of it")
    expect_output(env, "echo after", "after\n")


@check(4)
def an_interrupt_with_nothing_running_does_nothing(subject: Subject) -> None:
    env = subject.env
    env.interrupt()
    expect_output(env, "echo fine", "fine\n")


@check(4)
def exiting_124_or_130_is_not_being_ended(subject: Subject) -> None:
    env = subject.env
    for code in (124, 130, 137, 143):
        for result in (env.execute(f"(exit {code})"), env.execute_oneshot(f"exit {code}")):
            expect(result.exit_code == code, f"exit {code} gives {code}", result)
            expect(not result.timed_out and not result.interrupted, "and is neither", result)


@check(4)
def a_timeout_spares_what_earlier_commands_left_running(subject: Subject) -> None:
    env, word = subject.env, unique()
    env.execute(f"sh -c ': {word}; sleep 1000; :' >/dev/null 2>&1 & echo $! >/tmp/{word}")
    _timed_out(env, "sleep 1000")
    expect(running(env, word) == 1, "the earlier job still runs")
    env.execute(f"kill $(cat /tmp/{word}); rm /tmp/{word}")


@check(4)
def a_timeout_beside_the_session_ends_its_own_tree(subject: Subject) -> None:
    env, word = subject.env, unique()
    result = env.execute_oneshot(f"echo so far; (sh -c ': {word}; sleep 1000; :' &); sleep 1000", timeout=LIMIT)
    expect(result.timed_out and result.exit_code == 124 and result.output == "so far\n", "it times out", result)
    expect(wait_until(lambda: running(env, word) == 0, 2), "nothing is left of it")


@check(4)
def a_timeout_that_ends_a_child_leaves_the_shell(subject: Subject) -> None:
    env = subject.env
    if env.capabilities.shell != "bash":
        return
    pid = env.execute("plain=1; echo $$").output
    for command in ("sleep 1000; echo never", "f() { sleep 1000; echo never; }; f; echo never", "while :; do :; done"):
        result = _timed_out(env, command)
        expect("never" not in result.output, "nothing behind it runs", result)
        expect_output(env, "echo $$; echo $plain", f"{pid}1\n")
    env.execute("unset plain")


@check(4)
def a_command_times_out_however_fast_its_output_comes(subject: Subject) -> None:
    env = subject.env
    result = env.execute("yes", timeout=LIMIT, on_output=lambda _: time.sleep(0.01))
    expect(result.timed_out and result.exit_code == 124, "an endless printer times out", result.exit_code)
    expect(result.survivors == (), "and nothing of it is left", result.survivors)
    expect_output(env, "echo after", "after\n")


@check(4)
def a_command_is_ended_while_its_reader_is_away(subject: Subject) -> None:
    env, name, gone = subject.env, unique("V"), []
    env.execute(f"export {name}=kept")
    for arguments in ({"timeout": LIMIT}, {"interrupt": threading.Event()}):
        word = unique()

        def wait_for_the_end(_: str, word: str = word, arguments: dict[str, Any] = arguments) -> None:
            if event := arguments.get("interrupt"):
                event.set()
            gone.append(wait_until(lambda: running(env, word) == 0, PATIENCE))

        result = env.execute(f"echo so far; sh -c ': {word}; sleep 1000; :'", on_output=wait_for_the_end, **arguments)
        expect(result.timed_out is ("timeout" in arguments) and not result.ok, "it was ended for its reason", result)
        expect(result.output == "so far\n", "with the output so far", result)
    expect(gone == [True, True], "nothing was left while the callback had not returned", gone)
    expect_output(env, f"echo ${name}; unset {name}", "kept\n")


def _read_until(process: Process, text: str) -> str:
    read: list[str] = []
    wait_until(lambda: read.append(process.read()) or text in "".join(read))  # type: ignore[func-returns-value]
    return "".join(read)


@check(4)
def it_runs_beside_the_session(subject: Subject) -> None:
    env = subject.env
    process = env.start("echo begun; read -r word; echo got $word; exit 4")
    expect(_read_until(process, "begun\n") == "begun\n", "its output can be read while it runs")
    expect(process.poll() is None and process.wait(0.1) is None, "it runs")
    expect_output(env, "echo session", "session\n")
    process.write("this\n")
    expect(process.expect("got ", 30) == "got ", "what it prints can be waited for")
    expect(process.expect(re.compile("t.*s"), 30) == "this", "by a pattern, too")
    expect(process.wait(30) == 4, "its exit code is its own", process.poll())
    with expect_raised(EOFError, "what will not come any more raises") as raised:
        process.expect("more", 30)
    expect(isinstance(raised[0], TerminalError), "which is an error of ours", raised)
    expect(process.read() == "\n", "which reads nothing")
    expect(process.read() == "", "nothing is read twice")


@check(4)
def its_input_ends_when_it_is_closed(subject: Subject) -> None:
    blob = bytes(range(256)) * 1000
    process = subject.env.start("wc -c")
    process.write(blob)
    process.close_stdin()
    expect(process.wait(30) == 0, "it sees end of file", process.poll())
    expect(process.read().strip() == str(len(blob)), "after all that was written")


@check(4)
def killing_it_ends_its_whole_tree(subject: Subject) -> None:
    env, word = subject.env, unique()
    process = env.start(f"(sh -c 'trap \"\" TERM; : {word}; while :; do sleep 100; done' &); sleep 1000")
    expect(wait_until(lambda: running(env, word) > 0), "it has begun")
    process.kill()
    expect(process.poll() is not None and not process.running, "it has ended")
    expect(wait_until(lambda: running(env, word) == 0, 2), "nothing is left of it")
    process = env.start(f"sh -c ': {word}; sleep 1000; :' >/dev/null 2>&1 &")
    expect(process.wait(30) == 0, "one that leaves a child behind ends at once")
    process.kill()
    expect(wait_until(lambda: running(env, word) == 0, 2), "and is swept up after")


@check(4)
def a_terminal_is_a_terminal(subject: Subject) -> None:
    env = subject.env
    if not env.capabilities.pty:
        return
    process = env.start("stty size; test -t 0 && test -t 1 && echo terminal; read -r l; sleep 1000", pty=True, rows=30)
    text = _read_until(process, "terminal")
    expect("30 80" in text, "it has the size asked for", text)
    process.resize(40, 100)
    process.write("\x03")
    expect(process.wait(30) in (1, 130), "control-C ends it", process.poll())
    process = env.start("read -r l; stty size", pty=True)
    process.resize(40, 100)
    process.write("go\n")
    process.wait(30)
    expect("40 100" in process.read(), "it can be resized")
    process = env.start("trap '' TERM; echo on; sleep 1000", pty=True, grace=0.1)
    _read_until(process, "on")
    other = env.start("exec 2>/dev/null; echo on; sleep 1000")  # stderr as in a terminal's shell
    _read_until(other, "on")
    process.kill()
    expect(other.poll() is None, "to end one ends no other", other.poll())
    other.kill()


@check(4)
def its_end_is_told(subject: Subject) -> None:
    told: list[int | None] = []
    process = subject.env.start("read -r word; exit 3")
    process.add_done_callback(told.append)
    expect(told == [], "not while it runs", told)
    process.write("go\n")
    expect(process.wait(30) == 3 and wait_until(lambda: told == [3]), "its exit code is told", told)
    process.add_done_callback(told.append)
    expect(told == [3, 3], "also when it has ended", told)


@check(4)
def an_event_ends_a_command(subject: Subject) -> None:
    env = subject.env
    for run in (env.execute, env.execute_oneshot):
        _ended_by(env, run)
    expect(env.execute("echo after", timeout=60).output == "after\n", "the session goes on")


def _ended_by(env: BaseEnvironment, run: Callable[..., CommandResult]) -> None:
    event, word = threading.Event(), unique()
    result = run(
        f"(sh -c ': {word}; sleep 1000; :' &); echo begun; sleep 1000; echo more",
        interrupt=event,
        on_output=lambda _: event.set(),
        timeout=120,
    )
    expect((result.interrupted, result.exit_code) == (True, INTERRUPT_EXIT_CODE), "it was interrupted", result)
    expect(result.output == "begun\n", "its output so far is kept", result)
    expect(wait_until(lambda: running(env, word) == 0, 2), "nothing is left of it")
    result = run(f"echo ran >/tmp/{word}", interrupt=event)
    expect((result.interrupted, result.exit_code) == (True, INTERRUPT_EXIT_CODE), "it was interrupted before", result)
    expect(not env.execute_oneshot(f"[ -e /tmp/{word} ]").ok, "and has not run")


@check(4)
def an_event_ends_the_wait_for_ones_turn(subject: Subject) -> None:
    env, name, event = subject.env, unique("/tmp/gate"), threading.Event()
    with beside(lambda: env.execute(f"while [ ! -e {name} ]; do sleep 0.05; done")) as first:
        try:
            expect(wait_until(lambda: env.busy), "the session is busy")
            with beside(lambda: env.execute("echo second", interrupt=event)) as second:
                event.set()
            expect(not first, "the first goes on")
            expect([each.exit_code for each in second] == [INTERRUPT_EXIT_CODE], "the second does not begin", second)
        finally:
            env.execute_oneshot(f"touch {name}")
    env.execute_oneshot(f"rm {name}")


@check(4)
def a_cancelled_scope_ends_what_is_called_in_it(subject: Subject) -> None:
    env = subject.env
    for run in (env.execute, env.execute_oneshot):
        scope = CancelScope()
        with scope.active():
            result = run("echo begun; sleep 1000", on_output=lambda _, scope=scope: scope.cancel(), timeout=120)
            expect(result.interrupted and result.output == "begun\n", "it was interrupted", result)
            expect(run("echo again").interrupted, "nothing begins in it any more")
            _refused_in_it(env)
    expect(env.execute("echo after", timeout=60).output == "after\n", "outside of it all goes on")


def _refused_in_it(env: BaseEnvironment) -> None:
    """Expect an error from each raising call."""
    name = unique("/tmp/cancelled")
    with tempfile.TemporaryDirectory() as here:
        file = Path(here, "file")
        file.write_bytes(b"here")
        calls: dict[str, Callable[[], object]] = {
            "start": lambda: env.start(f"touch {name}"),
            "write_bytes": lambda: env.write_bytes(name, b"x"),
            "read_bytes": lambda: env.read_bytes("/etc/passwd"),
            "put_file": lambda: env.put_file(file, name),
            "get_file": lambda: env.get_file("/etc/passwd", Path(here, "new")),
            "put_dir": lambda: env.put_dir(here, name),
            "get_dir": lambda: env.get_dir("/etc", Path(here, "new")),
        }
        for what, call in calls.items():
            with expect_raised(CallCancelledError, f"{what} raises CallCancelledError"):
                call()
        expect([each.name for each in Path(here).iterdir()] == ["file"], "nothing came")


@check(4)
def a_transfer_that_is_cancelled_leaves_nothing_of_itself(subject: Subject) -> None:
    env, folder = subject.env, unique("/tmp/dir")
    env.write_bytes(f"{folder}/old", b"old")
    with tempfile.TemporaryDirectory() as here:
        source, target = Path(here, "source"), Path(here, "target")
        source.mkdir()
        Path(source, "large").write_bytes(b"x" * 4_000_000)
        env.put_file(source / "large", f"{folder}/large")
        _cancelled_at_once(env, lambda: env.put_file(source / "large", f"{folder}/new"))
        _cancelled_at_once(env, lambda: env.put_file(source / "large", f"{folder}/old"))
        _cancelled_at_once(env, lambda: env.put_dir(source, f"{folder}/sub"))
        _cancelled_at_once(env, lambda: env.get_file(f"{folder}/large", target))
        _cancelled_at_once(env, lambda: env.get_dir(folder, target / "new"))
        left = env.execute_oneshot(f"cd {folder}; cat old; find . -type f; find sub -type f -size +3900k").output
        expect(sorted(left.removeprefix("old").split()) == ["./large", "./old"], "nothing is left there", left)
        expect(not target.is_file() and not list(Path(here).glob("*hermes*")), "nor here", list(Path(here).iterdir()))
    expect(env.execute(["rm", "-r", folder]).ok, "and all goes on")


def _cancelled_at_once(env: BaseEnvironment, transfer: Callable[[], object]) -> None:
    """Cancel a transfer at its first progress report."""
    scope, told = CancelScope(), env.progress.callback
    env.progress.callback = lambda _: scope.cancel()
    try:
        with scope.active(), expect_raised(CallCancelledError, "a transfer raises CallCancelledError"):
            transfer()
    finally:
        env.progress.callback = told
