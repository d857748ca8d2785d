"""Line 7: nothing is limited by ARG_MAX, and nothing shows in the target's process list."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from environments.base import BaseEnvironment
from environments.conformance.check import Check, Subject, expect, expect_output, running, unique

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


@contextlib.contextmanager
def _set_here(**variables: str) -> Iterator[None]:
    """Have variables in this process."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _everywhere(env: BaseEnvironment, command: str) -> list[str]:
    """Return what a command prints in the session, beside it, and in the background."""
    process = env.start(command)
    process.wait(60)
    return [env.execute(command).output, env.execute_oneshot(command).output, process.read()]


def a_variable_that_is_passed_through_arrives(subject: Subject) -> None:
    """As it is, in every shell, and in no process list."""
    name, word = unique("PASSED").upper(), unique("secret")
    value = f"{word}\n'\" $HOME `x` \\ \udcff"
    show = f'printf %s "${name}"'
    with _set_here(**{name: value}), subject.make(env_passthrough=[name, unique("NOT_SET")]) as env:
        shown = _everywhere(env, show)
        expect(shown == [value.replace("\udcff", "\ufffd")] * 3, "it arrives byte for byte", shown)
        expect(running(env, word) == 0, "it is no argument of a program")
        for change, left in ((f"export {name}=own", "own"), (f"unset {name}", "")):
            env.execute(change)
            env.execute("exit")
            expect_output(env, show, left)


def a_variable_allowed_later_arrives_with_the_next_command(subject: Subject) -> None:
    """Of which it leaves no trace, and in the shells that come after."""
    name, word = unique("PASSED").upper(), unique("secret")
    with subject.make() as env, _set_here(**{name: word}):
        env.execute(f"unset {name}")
        env.passthrough.allow([name])
        for line in ("set -x", "set +x"):
            result = env.execute(line, stderr="separate")
            expect(word not in result.output + str(result.stderr), "it shows in no result", result)
        expect(_everywhere(env, f"echo ${name}") == [f"{word}\n"] * 3, "it is there")
        env.execute("exit")
        expect_output(env, f"echo ${name}", f"{word}\n")


def a_scrubbed_environment_holds_what_is_harmless_or_passed_through(subject: Subject) -> None:
    """And nothing else of what the target has, nor of what this process has."""
    hidden, passed = unique("HIDDEN").upper(), unique("PASSED").upper()
    variables = {hidden: "x", f"{hidden}-WITH.DOTS": "x", f"LC_{hidden}_TOKEN": "x", passed: "kept", "TZ": "UTC"}
    with _set_here(**variables), subject.make(scrub_env=True, env_passthrough=[passed]) as env:
        for seen in _everywhere(env, "env"):
            expect(hidden not in seen, "what nobody allowed is not there", seen)
            expect(f"{passed}=kept\n" in seen and "\nPATH=" in f"\n{seen}", "what is allowed is there", seen)
        env.execute(f"export {hidden}=own")
        expect_output(env, f"echo ${hidden}", "own\n")


CHECKS = tuple(
    Check(7, run)
    for run in (
        a_command_may_be_of_any_length,
        many_lines_are_one_command,
        a_command_shows_in_no_process_list,
        a_variable_that_is_passed_through_arrives,
        a_variable_allowed_later_arrives_with_the_next_command,
        a_scrubbed_environment_holds_what_is_harmless_or_passed_through,
    )
)
