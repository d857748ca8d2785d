"""Lines 5 and 6: output of commands and of their background children."""

from __future__ import annotations

import time

from environments.conformance.check import Subject, check, expect, expect_output, unique

CAP = 100_000
EVERY_BYTE = bytes(range(256))


@check(5)
def output_is_exact(subject: Subject) -> None:
    env = subject.env
    for text in ("", "a", "a\n", "\n", "\n\n", "a\n\nb", "tab\there", "grüße 日本 🙂", "\x1e\x1e", "a\x00b\x1b[0m"):
        data = "".join(f"\\{byte:03o}" for byte in text.encode())
        for run in (env.execute, env.execute_oneshot):
            result = run(f"printf '{data}'")
            expect(result.output == text, f"{text!r} comes back as it is", result)
            expect(result.omitted_bytes == 0, "nothing is left out", result)


@check(5)
def what_is_not_utf8_is_replaced(subject: Subject) -> None:
    result = subject.env.execute("printf 'a\\377b\\303'")
    expect(result.output == "a�b�", "each bad byte becomes a replacement sign", result)


@check(5)
def characters_split_between_writes_are_whole(subject: Subject) -> None:
    pieces: list[str] = []
    result = subject.env.execute("printf '\\303'; sleep 0.2; printf '\\274'", on_output=pieces.append)
    expect(result.output == "ü" and "".join(pieces) == "ü", "it is one character", (result, pieces))


@check(5)
def stderr_is_merged_in_order(subject: Subject) -> None:
    result = subject.env.execute("echo 1; echo 2 >&2; echo 3; echo 4 >&2")
    expect(result.output == "1\n2\n3\n4\n" and result.stderr is None, "in the order written", result)


@check(5)
def stderr_apart_is_apart(subject: Subject) -> None:
    env = subject.env
    for run in (env.execute, env.execute_oneshot):
        result = run("echo out; echo err >&2; (exit 3)", stderr="separate")
        expect((result.output, result.stderr, result.exit_code) == ("out\n", "err\n", 3), "each on its own", result)
    result = env.execute("i=0; while [ $i -lt 20000 ]; do echo out; echo err >&2; i=$((i+1)); done", stderr="separate")
    expect(result.output == "out\n" * 20000 and result.stderr == "err\n" * 20000, "also when it is much")


@check(5)
def above_the_cap_head_and_tail_are_kept(subject: Subject) -> None:
    total = 5_000_000
    with subject.make(max_output_bytes=CAP) as env:
        result = env.execute(f"printf first; head -c {total} /dev/zero | tr '\\0' x; printf last", timeout=120)
        expect(result.output.startswith("firstx") and result.output.endswith("xlast"), "head and tail are there")
        expect(len(result.output) <= CAP, "no more than the cap is kept", len(result.output))
        expect(len(result.output) + result.omitted_bytes == total + 9, "the rest is counted", result.omitted_bytes)
        expect(env.execute("echo after").output == "after\n", "the next command has its own output")


@check(5)
def output_comes_live(subject: Subject) -> None:
    arrived: list[float] = []
    result = subject.env.execute("echo now; sleep 2", on_output=lambda text: arrived.append(time.monotonic()))
    ended = time.monotonic()
    expect(result.ok and bool(arrived) and ended - arrived[0] > 1, "the first piece comes early", (arrived, ended))


@check(6)
def a_background_child_that_holds_stdout_does_not_delay_the_return(subject: Subject) -> None:
    env = subject.env
    for run in (env.execute, env.execute_oneshot):
        began = time.monotonic()
        result = run("echo begun; sleep 30 &", timeout=60)
        expect(result.output == "begun\n" and result.exit_code == 0, "the result is whole", result)
        expect(time.monotonic() - began < 15, "and comes at once", result)


@check(6)
def what_a_background_child_prints_between_commands_is_not_the_next_ones(subject: Subject) -> None:
    env = subject.env
    env.execute("(sleep 0.3; echo late) & echo begun")
    time.sleep(1)
    result = env.execute("echo mine")
    expect(result.output == "mine\n", "the next command's output is its own", result)


@check(5)
def output_comes_as_bytes(subject: Subject) -> None:
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


@check(5)
def a_command_may_have_a_cap_of_its_own(subject: Subject) -> None:
    env = subject.env
    total, cap = 600_000, 20_001
    for run in (env.execute, env.execute_oneshot):
        command = f"printf a; head -c {total} /dev/zero | tr '\\0' '\\377'; printf z"
        result = run(command, binary=True, max_output_bytes=cap, timeout=60)
        data = result.output_bytes or b""
        expect(len(data) == cap and data == b"a" + b"\xff" * (cap - 2) + b"z", "head and tail are kept", len(data))
        expect(result.omitted_bytes == total + 2 - cap, "the rest is counted", result.omitted_bytes)
    expect(env.execute("echo whole", timeout=60).output == "whole\n", "the next command has the usual one")


@check(6)
def what_is_left_of_a_command_reaches_no_later_one(subject: Subject) -> None:
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
