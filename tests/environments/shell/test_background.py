"""What commands leave in the background: it is read and dropped, and reaches no later command and none of ours."""

from __future__ import annotations

import time

import pytest

from environments import BaseEnvironment

NOISE = "(while :; do echo noise; echo noise >&2; sleep .01; done) &"


def _after(env: BaseEnvironment) -> None:
    for command in ("echo clean; sleep .05", "sleep .05; echo clean"):
        for stderr in ("merge", "separate"):
            result = env.execute(command, stderr=stderr)
            assert (result.output, result.stderr or "") == ("clean\n", "")
            result = env.execute_oneshot(command, stderr=stderr)
            assert (result.output, result.stderr or "") == ("clean\n", "")


def test_its_output_reaches_no_later_command(env: BaseEnvironment) -> None:
    env.execute("plain=1")
    for run in (env.execute, env.execute_oneshot):
        assert run(f"{NOISE} echo ok", stderr="separate").output.replace("noise\n", "") == "ok\n"
        _after(env)
    assert env.execute("echo $plain").output == "1\n"


@pytest.mark.parametrize("way", ["execute", "execute_oneshot"])
def test_nor_does_that_of_a_child_that_has_closed_all_but_its_output(way: str, env: BaseEnvironment) -> None:
    env.execute("plain=1")
    getattr(env, way)(f'(for i in {{3..255}}; do eval "exec $i>&-"; done; {NOISE})')
    time.sleep(0.2)  # in which it prints, while no command runs
    _after(env)
    assert env.execute("echo $plain").output == "1\n"


def test_a_time_out_beside_noise_is_a_time_out(env: BaseEnvironment) -> None:
    env.execute_oneshot(f"{NOISE} echo ok")
    env.execute(f"{NOISE} echo ok")
    assert env.execute("sleep 1000", timeout=0.3).timed_out
    assert env.execute_oneshot("sleep 1000", timeout=0.3).timed_out
    assert env.execute("echo on").output == "on\n"


def test_jobs_of_the_session_stay_its_jobs(env: BaseEnvironment) -> None:
    env.execute(f"{NOISE} echo ok")
    env.execute("echo between")
    assert env.execute("jobs | grep -c Running; kill %1; wait; echo gone").output.endswith("1\ngone\n")
    _after(env)


def test_whoever_is_told_of_an_end_harms_nothing(env: BaseEnvironment, caplog: pytest.LogCaptureFixture) -> None:
    told: list[int | None] = []

    def fail(exit_code: int | None) -> None:
        raise RuntimeError("of the one who is told")

    process = env.start("read -r word; exit 3")
    process.add_done_callback(fail)
    process.add_done_callback(told.append)
    process.write("go\n")
    assert process.wait(30) == 3
    process.add_done_callback(fail)
    env.cleanup()  # which waits for the thread of the process
    assert told == [3]
    assert caplog.text.count("RuntimeError: of the one who is told") == 2


def test_a_shell_that_ends_is_read_to_its_end_although_its_output_has_moved(bash_or_sh: BaseEnvironment) -> None:
    for number in "123":
        bash_or_sh.execute("sleep 100 &")
        result = bash_or_sh.execute(f"export KEPT={number}; echo last; exit 3")
        assert (result.output, result.exit_code) == ("last\n", 3)
        assert bash_or_sh.execute("echo $KEPT").output == f"{number}\n"
