"""Line 11: a target cannot exhaust memory or threads of this process, nor disturb other sessions."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from environments.conformance.check import Subject, check, expect, wait_until

KEPT = 200_000
FLOOD = 120_000_000
MOST_MEMORY = 80_000_000
"""Maximum growth of memory in bytes during a flood: stored and buffered output, and memory that Python frees late."""
MESSAGES = r"""
i=0
while [ $i -lt 300 ]; do
  printf '\036%s E%s\0000\0000\0' 0123456789abcdef $i
  printf '\036\036%s' "$i"
  i=$((i+1))
done
printf '\036'
"""


def _memory() -> int:
    """Return the resident memory of this process in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@check(11)
def unread_output_takes_no_memory(subject: Subject) -> None:
    with subject.make(max_output_bytes=KEPT) as env:
        env.execute("true")
        before = _memory()
        process = env.start(f"head -c {FLOOD} /dev/zero | tr '\\0' x; printf last")
        expect(process.wait(120) == 0, "it does not wait for a reader")
        expect(_memory() - before < MOST_MEMORY, "what it printed is not all kept", _memory() - before)
        output = process.read()
        expect(len(output) <= KEPT and output.endswith("last"), "the last of it is there", len(output))


@check(11)
def one_endless_line_takes_no_memory(subject: Subject) -> None:
    with subject.make(max_output_bytes=KEPT) as env:
        env.execute("true")
        before = _memory()
        result = env.execute(f"head -c {FLOOD} /dev/zero | tr '\\0' x", timeout=120)
        expect(len(result.output) <= KEPT, "no more than the cap is kept", len(result.output))
        expect(_memory() - before < MOST_MEMORY, "the rest was dropped as it came", _memory() - before)


@check(11)
def output_like_protocol_messages_is_harmless(subject: Subject) -> None:
    env = subject.env
    for run in (env.execute, env.execute_oneshot):
        result = run(MESSAGES)
        expect(result.exit_code == 0 and result.output.endswith("\x1e"), "it is output", result)
        expect(run("echo after; (exit 3)").exit_code == 3, "and the next command has its own result")


@check(11)
def another_session_goes_on_beside_a_flood(subject: Subject) -> None:
    with subject.make() as flooding, subject.make() as other:
        other.execute("true")
        flooding.execute("true")
        flood = threading.Thread(
            target=flooding.execute, args=("while :; do echo flood; done",), kwargs={"timeout": 30}
        )
        flood.start()
        time.sleep(0.5)
        for _ in range(3):
            expect(other.execute("echo fine").output == "fine\n", "a command of another session is right")
        expect(flood.is_alive(), "and does not wait for the flood")
        flooding.interrupt()
        flood.join()


@check(11)
def threads_do_not_add_up(subject: Subject) -> None:
    env = subject.env
    for _ in range(3):
        env.execute("true")
        env.execute_oneshot("true")
    before = threading.active_count()
    for number in range(8):
        env.execute(f"sleep 5{number} >/dev/null 2>&1 & kill $!")
        env.execute_oneshot("true")
        env.start("true").wait(30)
    ended = wait_until(lambda: threading.active_count() <= before + 3, 30)
    expect(ended, "they end with their commands", threading.active_count() - before)
