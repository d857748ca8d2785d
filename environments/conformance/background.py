"""Processes that `start` starts: each has a stream of its own, and ends with the environment."""

from __future__ import annotations

import re

from environments.base import BaseEnvironment
from environments.conformance.check import Check, Subject, expect, expect_output, running, unique, wait_until
from environments.errors import TerminalError
from environments.process import Process


def _read_until(process: Process, text: str) -> str:
    read: list[str] = []
    wait_until(lambda: read.append(process.read()) or text in "".join(read))  # type: ignore[func-returns-value]
    return "".join(read)


def it_runs_beside_the_session(subject: Subject) -> None:
    """What it printed is read bit by bit, and its exit code is its own."""
    env = subject.env
    process = env.start("echo begun; read -r word; echo got $word; exit 4")
    expect(_read_until(process, "begun\n") == "begun\n", "its output can be read while it runs")
    expect(process.poll() is None and process.wait(0.1) is None, "it runs")
    expect_output(env, "echo session", "session\n")
    process.write("this\n")
    expect(process.expect("got ", 30) == "got ", "what it prints can be waited for")
    expect(process.expect(re.compile("t.*s"), 30) == "this", "by a pattern, too")
    expect(process.wait(30) == 4, "its exit code is its own", process.poll())
    try:
        process.expect("more", 30)
    except EOFError as error:
        expect(isinstance(error, TerminalError), "what will not come any more raises an error of ours", error)
    else:
        expect(False, "what will not come any more raises")
    expect(process.read() == "\n", "which reads nothing")
    expect(process.read() == "", "nothing is read twice")


def its_input_ends_when_it_is_closed(subject: Subject) -> None:
    """And is exact until then."""
    blob = bytes(range(256)) * 1000
    process = subject.env.start("wc -c")
    process.write(blob)
    process.close_stdin()
    expect(process.wait(30) == 0, "it sees end of file", process.poll())
    expect(process.read().strip() == str(len(blob)), "after all that was written")


def killing_it_ends_its_whole_tree(subject: Subject) -> None:
    """Also what ignores TERM, and what it left behind when it ended by itself."""
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


def a_terminal_is_a_terminal(subject: Subject) -> None:
    """Where the backend has one: with a size, a driver that echoes, and signals from the keyboard."""
    env = subject.env
    if not env.capabilities.pty:
        return
    process = env.start("stty size; test -t 0 && test -t 1 && echo terminal; read -r l; sleep 1000", pty=True, rows=30)
    text = _read_until(process, "terminal")
    expect("30 80" in text, "it has the size asked for", text)
    process.resize(40, 100)
    process.write("\x03")
    expect(process.wait(30) in (1, 130), "control-C ends it", process.poll())
    _resized(env)
    _others_go_on(env)


def _resized(env: BaseEnvironment) -> None:
    process = env.start("read -r l; stty size", pty=True)
    process.resize(40, 100)
    process.write("go\n")
    process.wait(30)
    expect("40 100" in process.read(), "it can be resized")


def _others_go_on(env: BaseEnvironment) -> None:
    process = env.start("trap '' TERM; echo on; sleep 1000", pty=True, grace=0.1)
    _read_until(process, "on")
    other = env.start("exec 2>/dev/null; echo on; sleep 1000")  # its errors go where those of a terminal's shell do
    _read_until(other, "on")
    process.kill()
    expect(other.poll() is None, "to end one ends no other", other.poll())
    other.kill()


def what_is_left_of_a_command_reaches_no_later_one(subject: Subject) -> None:
    """Its output is read and dropped, so that it does not wait either."""
    with subject.make() as env:
        env.execute("plain=1")
        for run in (env.execute, env.execute_oneshot):
            result = run("(while :; do echo noise; sleep 0.05; done) & echo ok", timeout=60)
            expect(result.output.replace("noise\n", "") == "ok\n", "it does not delay the return", result)
        for run in (env.execute, env.execute_oneshot):
            result = run("echo clean; sleep 0.3", timeout=60)
            expect(result.output == "clean\n", "its output is no later command's", result)
        file = unique("/tmp/clean")
        env.write_bytes(file, b"clean")
        expect(env.read_bytes(file) == b"clean", "nor that of a command of ours")
        expect_output(env, f"echo $plain; rm {file}", "1\n")


def its_end_is_told(subject: Subject) -> None:
    """To whoever has asked for that before it, and at once to whoever asks after it."""
    told: list[int | None] = []
    process = subject.env.start("read -r word; exit 3")
    process.add_done_callback(told.append)
    expect(told == [], "not while it runs", told)
    process.write("go\n")
    expect(process.wait(30) == 3 and wait_until(lambda: told == [3]), "its exit code is told", told)
    process.add_done_callback(told.append)
    expect(told == [3, 3], "also when it has ended", told)


CHECKS = (
    Check(4, it_runs_beside_the_session),
    Check(4, its_input_ends_when_it_is_closed),
    Check(4, killing_it_ends_its_whole_tree),
    Check(4, its_end_is_told),
    Check(4, a_terminal_is_a_terminal),
    Check(6, what_is_left_of_a_command_reaches_no_later_one),
)
