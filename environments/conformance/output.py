"""Lines 5 and 6: what comes back of what a command prints."""

from __future__ import annotations

import time

from environments.conformance.check import Check, Subject, expect

CAP = 100_000


def output_is_exact(subject: Subject) -> None:
    """Byte for byte, with or without a line break at the end."""
    env = subject.env
    for text in ("", "a", "a\n", "\n", "\n\n", "a\n\nb", "tab\there", "grüße 日本 🙂", "\x1e\x1e", "a\x00b\x1b[0m"):
        data = "".join(f"\\{byte:03o}" for byte in text.encode())
        for run in (env.execute, env.execute_oneshot):
            result = run(f"printf '{data}'")
            expect(result.output == text, f"{text!r} comes back as it is", result)
            expect(result.omitted_bytes == 0, "nothing is left out", result)


def what_is_not_utf8_is_replaced(subject: Subject) -> None:
    """And does not raise."""
    result = subject.env.execute("printf 'a\\377b\\303'")
    expect(result.output == "a�b�", "each bad byte becomes a replacement sign", result)


def characters_split_between_writes_are_whole(subject: Subject) -> None:
    """In the result, and live."""
    pieces: list[str] = []
    result = subject.env.execute("printf '\\303'; sleep 0.2; printf '\\274'", on_output=pieces.append)
    expect(result.output == "ü" and "".join(pieces) == "ü", "it is one character", (result, pieces))


def stderr_is_merged_in_order(subject: Subject) -> None:
    """By default."""
    result = subject.env.execute("echo 1; echo 2 >&2; echo 3; echo 4 >&2")
    expect(result.output == "1\n2\n3\n4\n" and result.stderr is None, "in the order written", result)


def stderr_apart_is_apart(subject: Subject) -> None:
    """In the session, beside it, and when it is much."""
    env = subject.env
    for run in (env.execute, env.execute_oneshot):
        result = run("echo out; echo err >&2; (exit 3)", stderr="separate")
        expect((result.output, result.stderr, result.exit_code) == ("out\n", "err\n", 3), "each on its own", result)
    result = env.execute("i=0; while [ $i -lt 20000 ]; do echo out; echo err >&2; i=$((i+1)); done", stderr="separate")
    expect(result.output == "out\n" * 20000 and result.stderr == "err\n" * 20000, "also when it is much")


def above_the_cap_head_and_tail_are_kept(subject: Subject) -> None:
    """And the omitted bytes counted."""
    total = 5_000_000
    with subject.make(max_output_bytes=CAP) as env:
        result = env.execute(f"printf first; head -c {total} /dev/zero | tr '\\0' x; printf last", timeout=120)
        expect(result.output.startswith("firstx") and result.output.endswith("xlast"), "head and tail are there")
        expect(len(result.output) <= CAP, "no more than the cap is kept", len(result.output))
        expect(len(result.output) + result.omitted_bytes == total + 9, "the rest is counted", result.omitted_bytes)
        expect(env.execute("echo after").output == "after\n", "the next command has its own output")


def output_comes_live(subject: Subject) -> None:
    """Before the command's end."""
    arrived: list[float] = []
    result = subject.env.execute("echo now; sleep 2", on_output=lambda text: arrived.append(time.monotonic()))
    ended = time.monotonic()
    expect(result.ok and bool(arrived) and ended - arrived[0] > 1, "the first piece comes early", (arrived, ended))


def a_background_child_that_holds_stdout_does_not_delay_the_return(subject: Subject) -> None:
    """Line 6."""
    env = subject.env
    for run in (env.execute, env.execute_oneshot):
        began = time.monotonic()
        result = run("echo begun; sleep 30 &", timeout=60)
        expect(result.output == "begun\n" and result.exit_code == 0, "the result is whole", result)
        expect(time.monotonic() - began < 15, "and comes at once", result)


def what_a_background_child_prints_between_commands_is_not_the_next_ones(subject: Subject) -> None:
    """It came too late for its own command, and belongs to no other."""
    env = subject.env
    env.execute("(sleep 0.3; echo late) & echo begun")
    time.sleep(1)
    result = env.execute("echo mine")
    expect(result.output == "mine\n", "the next command's output is its own", result)


CHECKS = (
    *(
        Check(5, run)
        for run in (
            output_is_exact,
            what_is_not_utf8_is_replaced,
            characters_split_between_writes_are_whole,
            stderr_is_merged_in_order,
            stderr_apart_is_apart,
            above_the_cap_head_and_tail_are_kept,
            output_comes_live,
        )
    ),
    Check(6, a_background_child_that_holds_stdout_does_not_delay_the_return),
    Check(6, what_a_background_child_prints_between_commands_is_not_the_next_ones),
)
