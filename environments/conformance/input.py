"""Line 2: what a command reads."""

from __future__ import annotations

from environments.conformance.check import Check, Subject, expect, expect_output, unique


def without_stdin_a_command_sees_end_of_file(subject: Subject) -> None:
    """And takes nothing of what the shell is sent."""
    env = subject.env
    expect_output(env, "cat; echo end", "end\n")
    expect_output(env, 'read -r line; echo "got $line"', "got \n")
    expect(env.execute_oneshot("cat; echo end").output == "end\n", "so does one beside the session")


def stdin_is_bytes_or_text_of_any_size(subject: Subject) -> None:
    """Exactly as given, also what is not UTF-8."""
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


def stdin_that_is_not_read_harms_nothing(subject: Subject) -> None:
    """The command ends, and the next one reads its own."""
    env = subject.env
    result = env.execute("echo done", stdin=b"x" * 1_000_000, timeout=60)
    expect(result.output == "done\n", "it ends", result)
    expect_output(env, "cat", "")


CHECKS = tuple(
    Check(2, run)
    for run in (
        without_stdin_a_command_sees_end_of_file,
        stdin_is_bytes_or_text_of_any_size,
        stdin_that_is_not_read_harms_nothing,
    )
)
