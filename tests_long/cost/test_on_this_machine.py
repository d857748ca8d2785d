from __future__ import annotations

import pytest

from cost.budget import ON_THIS_MACHINE, excess
from cost.traced import Trace, traced


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    return traced(tmp_path_factory.mktemp("trace"))


@pytest.mark.parametrize("thing", ON_THIS_MACHINE)
def test_nothing_costs_more_than_its_budget(trace, thing):
    assert excess(f"{thing} on this machine", trace.cost(thing), ON_THIS_MACHINE[thing]) == []


LINES = """\
10 execve("/usr/bin/python3", ["python3"], 0x7ffc /* 20 vars */) = 0
10 access("/hermes-cost/thing 1 0", F_OK) = -1 ENOENT (No such file or directory)
10 clone3({flags=CLONE_VM|CLONE_THREAD|CLONE_SETTLS, exit_signal=0}, 88) = 11
11 futex(0x7f, FUTEX_WAIT, 0, NULL <unfinished ...>
10 access("/hermes-cost/thing 1 1", F_OK) = -1 ENOENT (No such file or directory)
10 vfork( <unfinished ...>
11 <... futex resumed>) = 0
12 execve("/bin/sh", ["sh"], 0x7ffc /* 20 vars */ <unfinished ...>
10 <... vfork resumed>) = 12
12 <... execve resumed>) = 0
12 clone(child_stack=NULL, flags=CLONE_CHILD_CLEARTID|SIGCHLD) = 13
13 execve("/no/such", ["such"], 0x7ffc) = -1 ENOENT (No such file or directory)
13 read(0, "x", 1) = 1
10 access("/hermes-cost/- 1 0", F_OK) = -1 ENOENT (No such file or directory)
"""


def test_a_trace_tells_processes_from_threads_and_ours_from_others():
    cost = Trace(LINES.splitlines()).cost("thing")
    assert cost == {"processes": 2, "programs": 1, "threads": -1, "calls_here": 0 - 1, "calls_there": 1}
