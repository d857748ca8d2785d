"""A check of `renew` and `is_ready`, the needs of a pool, for any backend."""

from __future__ import annotations

import pytest

from environments import TerminalError
from environments.conformance import Subject
from targets.lease_threads import until

LEAVE = "export LEFT=export; LEFT_VARIABLE=variable; left() { :; }; cd /; trap '' TERM; sleep {nap} & (sleep {nap} &)"
LOOK = 'echo "${LEFT-none} ${LEFT_VARIABLE-none}"; command -v left; pwd'


def grep_processes(word: str) -> str:
    """Return a command that prints the other processes with a word in their arguments."""
    return f"grep -ls '[{word[0]}]{word[1:]}' /proc/[0-9]*/cmdline"


def check_renew(subject: Subject, nap: str) -> None:
    """Check that `renew` leaves no state, process or internal file of the use before."""
    with subject.make() as env:
        assert not env.is_ready, "nothing was started"
        env.prepare()
        assert env.is_ready
        began = env.execute("pwd").output
        env.write_bytes(f"{env.internal.scratch_directory()}/gone", b"x")
        scratch = env.internal.scratch_directory()
        env.execute(LEAVE.replace("{nap}", nap))
        env.start(f"sleep {nap}")
        env.session("other").execute(f"export LEFT=other; sleep {nap} &")
        assert until(lambda: env.execute_oneshot(grep_processes(nap)).output.count("\n") >= 4)
        env.renew()
        env.prepare()
        assert env.is_ready
        assert env.execute(grep_processes(nap)).output == ""
        assert env.execute(LOOK).output == f"none none\n{began}"
        assert env.session("other").execute("echo ${LEFT-none}").output == "none\n"
        assert env.execute(f"ls {scratch}").exit_code != 0
        assert env.execute("wc -c", stdin="x" * 200_000).output.strip() == "200000", "with a new scratch directory"
        if subject.lose_target:
            subject.lose_target(env)
            assert until(lambda: not env.is_ready)
    assert not env.is_ready
    with pytest.raises(TerminalError):
        env.renew()
