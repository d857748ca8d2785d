"""Lines 4 and 5: how a command is asked for, what is told of its output, and who may end it from outside."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

from environments.base import BaseEnvironment
from environments.cancellation import CancelScope
from environments.conformance.check import Check, Subject, expect, running, unique, wait_until
from environments.errors import CallCancelledError
from environments.result import INTERRUPT_EXIT_CODE, CommandResult

ODD_WORDS = ("a b", "", "$HOME `id`", "*", 'it\'s "x"\\', "ü\n", "-n", "--", "#", "~", "A=1", "{a,b}", "!!")
EVERY_BYTE = bytes(range(256))


def a_list_is_a_program_and_its_arguments(subject: Subject) -> None:
    """Which no shell takes apart, in the session, beside it and in the background."""
    env = subject.env
    command = ["printf", "<%s>", *ODD_WORDS]
    output = "".join(f"<{word}>" for word in ODD_WORDS)
    for run in (env.execute, env.execute_oneshot):
        result = run(command, timeout=60)
        expect((result.output, result.exit_code) == (output, 0), "each argument arrives as it is", result)
        expect(run(["sh", "-c", "cat; exit 3"], stdin="in").exit_code == 3, "its exit code and its input are its own")
    process = env.start(command)
    expect(process.wait(60) == 0 and process.read() == output, "also in the background")


def the_program_of_a_list_is_none_of_the_sessions_own(subject: Subject) -> None:
    """No function, alias or reserved word is run in its place, nor is a variable set."""
    env = subject.env
    env.execute("uname() { echo a function; }\nalias id='echo an alias'")
    names = env.execute(["uname"]), env.execute(["id", "-u"])
    expect(all(result.ok and "an alias" not in result.output for result in names), "the programs are run", names)
    expect("function" not in names[0].output, "and not a function", names[0])
    env.execute("unset -f uname; unalias id")
    for words in (["if"], ["A=1"], ["no such program"], ["-x"], [""]):
        result = env.execute(words, timeout=60)
        expect(result.exit_code in (126, 127), f"{words} is no program", result)


def output_comes_as_bytes(subject: Subject) -> None:
    """All of them, in the result and live, with the channel that each piece came from."""
    env = subject.env
    text = "".join(f"\\{byte:03o}" for byte in EVERY_BYTE)
    for run in (env.execute, env.execute_oneshot):
        heard: dict[str, bytes] = {"stdout": b"", "stderr": b""}

        def listen(piece: bytes, channel: str, heard: dict[str, bytes] = heard) -> None:
            heard[channel] += piece

        command = f"printf '{text}'; printf '{text}x' >&2"
        result = run(command, stderr="separate", binary=True, on_output=listen, timeout=60)
        expect((result.output_bytes, result.stderr_bytes) == (EVERY_BYTE, EVERY_BYTE + b"x"), "both as bytes", result)
        expect(heard == {"stdout": EVERY_BYTE, "stderr": EVERY_BYTE + b"x"}, "live too, each by its channel", heard)
        merged = run(command, binary=True, timeout=60)
        expect(merged.output_bytes == EVERY_BYTE * 2 + b"x" and merged.stderr_bytes is None, "or merged", merged)
        expect(run("echo text", timeout=60).output_bytes is None, "only where they are asked for")


def a_command_may_have_a_cap_of_its_own(subject: Subject) -> None:
    """With bytes, too, of which none is changed at the cut. A larger one than the settings' is in `output`."""
    env = subject.env
    total, cap = 600_000, 20_001
    for run in (env.execute, env.execute_oneshot):
        command = f"printf a; head -c {total} /dev/zero | tr '\\0' '\\377'; printf z"
        result = run(command, binary=True, max_output_bytes=cap, timeout=60)
        data = result.output_bytes or b""
        expect(len(data) == cap and data == b"a" + b"\xff" * (cap - 2) + b"z", "head and tail are kept", len(data))
        expect(result.omitted_bytes == total + 2 - cap, "the rest is counted", result.omitted_bytes)
    expect(env.execute("echo whole", timeout=60).output == "whole\n", "the next command has the usual one")


def an_event_ends_a_command(subject: Subject) -> None:
    """Before it has begun and while it runs, with all that it started."""
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


def an_event_ends_the_wait_for_ones_turn(subject: Subject) -> None:
    """And not the command whose turn it is."""
    env, name, event = subject.env, unique("/tmp/gate"), threading.Event()
    session = threading.Thread(target=env.execute, args=(f"while [ ! -e {name} ]; do sleep 0.05; done",))
    session.start()
    try:
        expect(wait_until(lambda: env.busy), "the session is busy")
        results: list[CommandResult] = []
        second = threading.Thread(target=lambda: results.append(env.execute("echo second", interrupt=event)))
        second.start()
        event.set()
        second.join(30)
        expect(session.is_alive(), "the first goes on")
        expect([result.exit_code for result in results] == [INTERRUPT_EXIT_CODE], "the second does not begin", results)
    finally:
        env.execute_oneshot(f"touch {name}")
        session.join(30)
        env.execute_oneshot(f"rm {name}")


def a_cancelled_scope_ends_what_is_called_in_it(subject: Subject) -> None:
    """A command is interrupted; what returns no result raises."""
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
    """Expect every call to raise that says what it did by raising."""
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
            _expect_cancelled(what, call)
        expect([each.name for each in Path(here).iterdir()] == ["file"], "nothing came")


def _expect_cancelled(what: str, call: Callable[[], object]) -> None:
    try:
        call()
    except CallCancelledError:
        return
    expect(False, f"{what} raises CallCancelledError")


def a_transfer_that_is_cancelled_leaves_nothing_of_itself(subject: Subject) -> None:
    """Neither there nor here, and what was there stays as it was."""
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
    """Cancel a transfer when it tells that it has begun."""
    scope, told = CancelScope(), env.progress.callback
    env.progress.callback = lambda _: scope.cancel()
    try:
        with scope.active():
            _expect_cancelled("a transfer", transfer)
    finally:
        env.progress.callback = told


CHECKS = (
    Check(7, a_list_is_a_program_and_its_arguments),
    Check(7, the_program_of_a_list_is_none_of_the_sessions_own),
    Check(5, output_comes_as_bytes),
    Check(5, a_command_may_have_a_cap_of_its_own),
    Check(4, an_event_ends_a_command),
    Check(4, an_event_ends_the_wait_for_ones_turn),
    Check(4, a_cancelled_scope_ends_what_is_called_in_it),
    Check(4, a_transfer_that_is_cancelled_leaves_nothing_of_itself),
)
