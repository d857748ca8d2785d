"""What commands leave in the background: it is read and dropped, and reaches no later command and none of ours."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from targets.plain_local import PlainLocal

from environments import BaseEnvironment, load_settings

NOISE = "(while :; do echo noise; echo noise >&2; sleep .01; done) &"


def _after(env: BaseEnvironment) -> None:
    for command in ("echo clean; sleep .2", "sleep .1; echo clean"):
        for stderr in ("merge", "separate"):
            result = env.execute(command, stderr=stderr)
            assert (result.output, result.stderr or "") == ("clean\n", "")
            result = env.execute_oneshot(command, stderr=stderr)
            assert (result.output, result.stderr or "") == ("clean\n", "")


@pytest.mark.parametrize("stderr", ["merge", "separate"])
@pytest.mark.parametrize("run", ["execute", "execute_oneshot"])
def test_its_output_reaches_no_later_command(env: BaseEnvironment, run: str, stderr: str) -> None:
    env.execute("plain=1")
    for _ in range(3):
        assert getattr(env, run)(f"{NOISE} echo ok", stderr=stderr).output.replace("noise\n", "") == "ok\n"
        _after(env)
    assert env.execute("echo $plain").output == "1\n"


def test_nor_any_file_of_ours(tmp_path: Path) -> None:
    with PlainLocal(load_settings("local", cwd=str(tmp_path))) as env:
        env.execute_oneshot(f"{NOISE} echo ok")
        env.execute(f"{NOISE} echo ok")
        for number in range(5):
            env.write_bytes("file", b"%d" % number)
            assert env.read_bytes("file") == b"%d" % number
        assert env.execute("cat", stdin="input").output == "input"
        _after(env)


def test_a_time_out_beside_noise_is_a_time_out(env: BaseEnvironment) -> None:
    env.execute_oneshot(f"{NOISE} echo ok")
    env.execute(f"{NOISE} echo ok")
    assert env.execute("sleep 1000", timeout=0.3).timed_out
    assert env.execute_oneshot("sleep 1000", timeout=0.3).timed_out
    assert env.execute("echo on").output == "on\n"


@pytest.mark.parametrize("run", ["execute", "execute_oneshot"])
def test_it_does_not_wait_for_a_reader(env: BaseEnvironment, tmp_path: Path, run: str) -> None:
    done = tmp_path / "done"
    getattr(env, run)(f"(head -c 20000000 /dev/zero | tr '\\0' x; touch {done}) & echo ok")
    for _ in range(600):
        if done.exists():
            break
        time.sleep(0.05)
    assert done.exists()
    assert env.execute("echo clean").output == "clean\n"


def test_jobs_of_the_session_stay_its_jobs(env: BaseEnvironment) -> None:
    env.execute(f"{NOISE} echo ok")
    env.execute("echo between")
    assert env.execute("jobs | grep -c Running; kill %1; wait; echo gone").output.endswith("1\ngone\n")
    _after(env)


def test_a_server_whose_output_goes_to_a_file_costs_no_new_way_out(env: BaseEnvironment) -> None:
    env.execute("sleep 1000 >log 2>&1 & echo $! >pid")
    shell = env._session._shell.current
    assert env.execute("echo clean").output == "clean\n"
    assert type(shell.stream).__name__ == "ChildStream"
    env.execute("kill $(cat pid)")


def test_the_end_of_a_shell_beside_a_background_job_is_told_at_once(env: BaseEnvironment) -> None:
    env.execute("sleep 1000 & exit 0")
    assert env.execute("echo on").output == "on\n"


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
