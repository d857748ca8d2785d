"""Lines 2 and 3: input of commands, and commands beside the session."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

from environments.conformance.check import Subject, beside, check, expect, expect_output, unique, wait_until

AT_ONCE = 20


@check(2)
def without_stdin_a_command_sees_end_of_file(subject: Subject) -> None:
    env = subject.env
    expect_output(env, "cat; echo end", "end\n")
    expect_output(env, 'read -r line; echo "got $line"', "got \n")
    expect(env.execute_oneshot("cat; echo end").output == "end\n", "so does one beside the session")


@check(2)
def stdin_is_bytes_or_text_of_any_size(subject: Subject) -> None:
    env = subject.env
    expect(env.execute("cat", stdin="grüße\n").output == "grüße\n", "text arrives")
    blob = bytes(range(256)) * 4096
    for run in (env.execute, env.execute_oneshot):
        result = run("wc -c", stdin=blob)
        expect(result.output.strip() == str(len(blob)), "a megabyte of bytes arrives", result)
    file = unique("/tmp/input")
    env.write_bytes(file, blob)
    result = env.execute(f"cmp - {file} && rm {file}", stdin=blob)
    expect(result.ok, "and unchanged", result)
    expect(env.execute("cat", stdin="").output == "", "empty input is end of file")


@check(2)
def stdin_that_is_not_read_harms_nothing(subject: Subject) -> None:
    env = subject.env
    result = env.execute("echo done", stdin=b"x" * 1_000_000, timeout=60)
    expect(result.output == "done\n", "it ends", result)
    expect_output(env, "cat", "")


@check(3)
def it_does_not_wait_for_the_session(subject: Subject) -> None:
    env, name = subject.env, unique("/tmp/gate")
    with beside(lambda: env.execute(f"while [ ! -e {name} ]; do sleep 0.05; done")) as session:
        try:
            result = env.execute_oneshot("echo beside", timeout=30)
            expect(result.output == "beside\n" and not session, "it ran while the session's command did", result)
        finally:
            env.execute_oneshot(f"touch {name}")
    env.execute_oneshot(f"rm {name}")


@check(3)
def it_does_not_wait_for_the_first_command_of_all(subject: Subject) -> None:
    with subject.make() as env, beside(lambda: env.execute("sleep 1000")) as session:
        result = env.execute_oneshot("echo beside", timeout=30)
        expect(result.output == "beside\n" and not session, "it ran while the session's command did", result)
        wait_until(lambda: env.busy)
        env.interrupt()
        expect(wait_until(lambda: bool(session), 30), "the session's command was interrupted")


@check(3)
def it_leaves_the_session_as_it_was(subject: Subject) -> None:
    env, name = subject.env, unique("V")
    home = env.cwd
    env.execute(f"export {name}=kept")
    for command in (f"cd /; export {name}=lost", "exit 5", "exec sh -c 'exit 6'", "set -e; false", "kill -9 $$"):
        env.execute_oneshot(command)
    expect_output(env, f"pwd; echo ${name}; unset {name}", f"{home}\nkept\n")


@check(3)
def it_starts_in_the_sessions_directory(subject: Subject) -> None:
    env = subject.env
    home = env.cwd
    env.execute("cd /tmp")
    expect(env.execute_oneshot("pwd").output == "/tmp\n", "it starts where the session is")
    expect(env.execute_oneshot("pwd", cwd="/usr").output == "/usr\n", "or where it is told to")
    env.execute(f"cd '{home}'")


@check(3)
def twenty_at_once_work(subject: Subject) -> None:
    env = subject.env
    with ThreadPoolExecutor(AT_ONCE) as threads:
        results = list(
            threads.map(lambda n: env.execute_oneshot(f"sleep 0.1; echo {n}; exit {n}", timeout=120), range(AT_ONCE))
        )
    found = [(result.output, result.exit_code) for result in results]
    expect(found == [(f"{n}\n", n) for n in range(AT_ONCE)], "each gets what is its own", found)


@check(3)
def a_session_interrupted_leaves_it_alone(subject: Subject) -> None:
    env = subject.env
    env.execute("true")  # an interrupt would stop the start, for both
    with (
        beside(lambda: env.execute_oneshot("sleep 1; echo whole", timeout=60)) as oneshot,
        beside(lambda: env.execute("sleep 60", timeout=60)) as session,
    ):
        time.sleep(0.3)
        wait_until(lambda: bool(session) or env.interrupt() is not None, 5)
    outputs = [result.output for result in (*session, *oneshot)]
    expect(outputs == ["", "whole\n"], "the one beside ran to its end", (session, oneshot))
