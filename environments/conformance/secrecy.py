"""Line 7: nothing is limited by ARG_MAX, and nothing shows in the target's process list."""

from __future__ import annotations

from environments.conformance.check import Check, Subject, expect, running, unique

LONG = 3_000_000
"""Characters: more than the 2 MB that Linux allows for all arguments, or the 128 KB for one."""


def a_command_may_be_of_any_length(subject: Subject) -> None:
    """In the session, beside it, and in the background."""
    env = subject.env
    command = f"x='{'y' * LONG}'; echo ${{#x}}; unset x"
    for run in (env.execute, env.execute_oneshot):
        result = run(command, timeout=120)
        expect(result.output == f"{LONG}\n", "all of it arrives", result.output[:200])
    process = env.start(command)
    expect(process.wait(120) == 0 and process.read() == f"{LONG}\n", "in the background too", process.poll())


def many_lines_are_one_command(subject: Subject) -> None:
    """With quotes, here-documents and line breaks in them."""
    command = "cat <<'END'\na 'b' \"c\" $d `e` \\f\nEND\necho \\\n  joined\n"
    result = subject.env.execute(command)
    expect(result.output == "a 'b' \"c\" $d `e` \\f\njoined\n", "every character arrives", result)


def a_command_shows_in_no_process_list(subject: Subject) -> None:
    """Neither does what it is given to read, however it is run."""
    env, word = subject.env, unique("secret")
    look = f": {word}; sleep 0.5; true"
    env.execute(f"( {look} ) & :", stdin=word)
    expect(running(env, word) == 0, "a command of the session does not show")
    process = env.start(f"( {look}; sleep 2 )")
    expect(running(env, word) == 0, "nor one in the background")
    process.kill()
    long = env.start(f"( : {'x' * 100_000} {word}; sleep 2 )")
    expect(running(env, word) == 0, "nor a long one")
    long.kill()


CHECKS = tuple(
    Check(7, run)
    for run in (
        a_command_may_be_of_any_length,
        many_lines_are_one_command,
        a_command_shows_in_no_process_list,
    )
)
