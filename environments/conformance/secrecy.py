"""Line 7: no limit by ARG_MAX, and no command, input or variable in the target's process list."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from environments.base import BaseEnvironment
from environments.conformance.check import Subject, check, expect, expect_output, running, unique

LONG = 3_000_000
"""Characters: more than Linux's limits of 2 MB for all arguments and 128 KB for one."""
ODD_WORDS = ("a b", "", "$HOME `id`", "*", 'it\'s "x"\\', "ü\n", "-n", "--", "#", "~", "A=1", "{a,b}", "!!")


@check(7)
def a_command_may_be_of_any_length(subject: Subject) -> None:
    env = subject.env
    command = f"x='{'y' * LONG}'; echo ${{#x}}; unset x"
    for run in (env.execute, env.execute_oneshot):
        result = run(command, timeout=120)
        expect(result.output == f"{LONG}\n", "all of it arrives", result.output[:200])
    process = env.start(command)
    expect(process.wait(120) == 0 and process.read() == f"{LONG}\n", "in the background too", process.poll())


@check(7)
def many_lines_are_one_command(subject: Subject) -> None:
    command = "cat <<'END'\na 'b' \"c\" $d `e` \\f\nEND\necho \\\n  joined\n"
    result = subject.env.execute(command)
    expect(result.output == "a 'b' \"c\" $d `e` \\f\njoined\n", "every character arrives", result)


@check(7)
def a_command_shows_in_no_process_list(subject: Subject) -> None:
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
    """Set variables of this process."""
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
    """Return the output of a command in the session, beside the session, and in the background."""
    process = env.start(command)
    process.wait(60)
    return [env.execute(command).output, env.execute_oneshot(command).output, process.read()]


@check(7)
def a_variable_that_is_passed_through_arrives(subject: Subject) -> None:
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


@check(7)
def a_variable_allowed_later_arrives_with_the_next_command(subject: Subject) -> None:
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


@check(7)
def a_scrubbed_environment_holds_what_is_harmless_or_passed_through(subject: Subject) -> None:
    hidden, passed = unique("HIDDEN").upper(), unique("PASSED").upper()
    variables = {hidden: "x", f"{hidden}-WITH.DOTS": "x", f"LC_{hidden}_TOKEN": "x", passed: "kept", "TZ": "UTC"}
    with _set_here(**variables), subject.make(scrub_env=True, env_passthrough=[passed]) as env:
        for seen in _everywhere(env, "env"):
            expect(hidden not in seen, "what was not allowed is not there", seen)
            expect(f"{passed}=kept\n" in seen and "\nPATH=" in f"\n{seen}", "what is allowed is there", seen)
        env.execute(f"export {hidden}=own")
        expect_output(env, f"echo ${hidden}", "own\n")


@check(7)
def a_list_is_a_program_and_its_arguments(subject: Subject) -> None:
    env = subject.env
    command = ["printf", "<%s>", *ODD_WORDS]
    output = "".join(f"<{word}>" for word in ODD_WORDS)
    for run in (env.execute, env.execute_oneshot):
        result = run(command, timeout=60)
        expect((result.output, result.exit_code) == (output, 0), "each argument arrives as it is", result)
        expect(run(["sh", "-c", "cat; exit 3"], stdin="in").exit_code == 3, "its exit code and its input are its own")
    process = env.start(command)
    expect(process.wait(60) == 0 and process.read() == output, "also in the background")


@check(7)
def the_program_of_a_list_is_none_of_the_sessions_own(subject: Subject) -> None:
    env = subject.env
    env.execute("uname() { echo a function; }\nalias id='echo an alias'")
    names = env.execute(["uname"]), env.execute(["id", "-u"])
    expect(all(result.ok and "an alias" not in result.output for result in names), "the programs are run", names)
    expect("function" not in names[0].output, "and not a function", names[0])
    env.execute("unset -f uname; unalias id")
    for words in (["if"], ["A=1"], ["no such program"], ["-x"], [""]):
        result = env.execute(words, timeout=60)
        expect(result.exit_code in (126, 127), f"{words} is no program", result)
