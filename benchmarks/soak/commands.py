"""Ordinary commands, each with its expected result."""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor

from benchmarks.soak.work import LONG, Work, expect

FILES = 20
SIDE_BY_SIDE = 4


def empty_command(work: Work) -> None:
    """Run an empty command."""
    result = work.session("true")
    expect((result.output, result.exit_code) == ("", 0), "nothing", result)


def print_words(work: Work) -> None:
    """Print a word, in the session or beside it."""
    word = f"{work.chance.random()}"
    run = work.chance.choice((work.session, work.oneshot))
    result = run(f"echo {word}; echo apart >&2", stderr="separate")
    expect((result.output, result.stderr) == (f"{word}\n", "apart\n"), "words", result)


def change_state(work: Work) -> None:
    """Compare the state of the session, and change it."""
    word = f"{work.chance.random()}"
    held, work.held = work.held, {word, *work.held}  # either value until the result has arrived
    result = work.session(f'echo "$SOAK"; export SOAK={word}')
    expect(result.output.strip() in held, f"the session holds one of {held}", result)
    work.held, work.held_before = {word}, held


def read_input(work: Work) -> None:
    """Read an input."""
    data = "x" * work.chance.randrange(200_000) + "\n"
    run = work.chance.choice((work.session, work.oneshot))
    expect(run("cat", stdin=data).output == data, "what was read comes back")


def large_output(work: Work) -> None:
    """Print up to 3 MB."""
    size = work.chance.randrange(3_000_000)
    result = work.session(f"head -c {size} /dev/zero | tr '\\0' x")
    expect(len(result.output) == size, f"{size} bytes are printed", len(result.output))


def exit_code(work: Work) -> None:
    """Fail, sometimes together with the shell."""
    code = work.chance.randrange(1, 100)
    run = work.chance.choice((work.session, work.oneshot))
    ends = work.chance.random() < 0.1
    expect(run(f"exit {code}" if ends else f"(exit {code})").exit_code == code, "the exit code is the command's")


def background(work: Work) -> None:
    """Leave a background child that prints for a while."""
    run = work.chance.choice((work.session, work.oneshot))
    result = run("(sleep 0.2; echo late) & echo begun")
    expect(result.output == "begun\n", "a background child does not block the command", result)


def concurrent_oneshots(work: Work) -> None:
    """Run one-shots at once."""
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        results = list(pool.map(lambda number: work.oneshot(f"echo {number}").output, range(SIDE_BY_SIDE)))
    expect(results == [f"{number}\n" for number in range(SIDE_BY_SIDE)], "each has its own output", results)


def write_file(work: Work) -> None:
    """Write a file and read it back."""
    path = f"{work.directory}/{work.chance.randrange(FILES)}"
    data = work.chance.randbytes(work.chance.choice((0, 100, 70_000, 400_000)))
    work.env.write_bytes(path, data)
    expect(work.env.read_bytes(path) == data, "a file is what was written")
    work.commands += 1


def exchange_lines(work: Work) -> None:
    """Exchange lines with a process; every other one is killed."""
    work.commands += 1
    talk = work.env.start("read -r word; echo $word; [ $word = end ] || sleep 1000")
    word = work.chance.choice(("end", "stay"))
    with contextlib.suppress(BrokenPipeError):  # its shell was killed
        talk.write(f"{word}\n")
    if word == "stay":
        talk.kill()
    expect(talk.wait(LONG) is not None, "a process ends")


ORDINARY = {
    empty_command: 30,
    print_words: 20,
    change_state: 15,
    read_input: 5,
    large_output: 2,
    exit_code: 5,
    background: 3,
    concurrent_oneshots: 3,
    write_file: 5,
    exchange_lines: 2,
}
"""Each with its weight."""
