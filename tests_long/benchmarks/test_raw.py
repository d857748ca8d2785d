"""The raw cost is measured on the same work."""

from __future__ import annotations

from benchmarks.raw_process import PipedProcess
from benchmarks.tool_calls import socket_times, stream_times


def test_round_trips_are_made_by_a_python_behind_a_shell_which_goes_on_after_them() -> None:
    with PipedProcess(["bash", "--norc", "--noprofile"]) as bash:
        for _ in range(2):
            times = stream_times(bash, 7)
            assert len(times) == 7 and all(taken > 0 for taken in times)
        assert bash.round_trip(b"echo after\n") == b"after\n"


def test_round_trips_over_a_socket_are_counted_by_its_client() -> None:
    times = socket_times(7)
    assert len(times) == 7 and all(taken > 0 for taken in times)
