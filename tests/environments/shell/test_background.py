"""Background children of commands: their output is read and dropped, and reaches no later command."""

from __future__ import annotations

import gc
import threading
import time
from typing import Any

import pytest
from targets.processes import all_gone

from environments import BaseEnvironment, CallCancelledError, CancelScope, create_environment
from environments.loop import in_worker
from environments.output import Channel
from environments.shell.process import Processes

NOISE = "(while :; do echo noise; echo noise >&2; sleep .01; done) &"


def _check_clean_output(env: BaseEnvironment) -> None:
    for command in ("echo clean; sleep .05", "sleep .05; echo clean"):
        for stderr in ("merge", "separate"):
            result = env.execute(command, stderr=stderr)
            assert (result.output, result.stderr or "") == ("clean\n", "")
            result = env.execute_oneshot(command, stderr=stderr)
            assert (result.output, result.stderr or "") == ("clean\n", "")


def test_output_of_a_background_child_reaches_no_later_command(env: BaseEnvironment) -> None:
    env.execute("plain=1")
    for run in (env.execute, env.execute_oneshot):
        assert run(f"{NOISE} echo ok", stderr="separate").output.replace("noise\n", "") == "ok\n"
        _check_clean_output(env)
    assert env.execute("echo $plain").output == "1\n"


@pytest.mark.parametrize("way", ["execute", "execute_oneshot"])
def test_output_of_a_child_that_has_closed_all_other_descriptors_reaches_no_later_command(
    way: str, env: BaseEnvironment
) -> None:
    env.execute("plain=1")
    getattr(env, way)(f'(for i in {{3..255}}; do eval "exec $i>&-"; done; {NOISE})')
    time.sleep(0.2)  # the child prints while no command runs
    _check_clean_output(env)
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
    _check_clean_output(env)


def test_an_error_of_a_done_callback_is_logged_and_harms_nothing(
    env: BaseEnvironment, caplog: pytest.LogCaptureFixture
) -> None:
    codes: list[int | None] = []

    def fail(exit_code: int | None) -> None:
        raise RuntimeError("of a callback")

    process = env.start("read -r word; exit 3")
    process.add_done_callback(fail)
    process.add_done_callback(codes.append)
    process.write("go\n")
    assert process.wait(30) == 3
    process.add_done_callback(fail)
    env.cleanup()  # waits for the thread of the process
    assert codes == [3]
    assert caplog.text.count("RuntimeError: of a callback") == 2


def test_a_shell_that_ends_is_read_to_its_end_although_its_output_has_moved(bash_or_sh: BaseEnvironment) -> None:
    for number in "123":
        bash_or_sh.execute("sleep 100 &")
        result = bash_or_sh.execute(f"export KEPT={number}; echo last; exit 3")
        assert (result.output, result.exit_code) == ("last\n", 3)
        assert bash_or_sh.execute("echo $KEPT").output == f"{number}\n"


class _BlockingSink:
    """A sink that blocks until the test releases it."""

    separate = False

    def __init__(self) -> None:
        self.is_offered, self.may_take = threading.Event(), threading.Event()

    def add(self, channel: Channel, data: bytes) -> None:
        self.is_offered.set()
        assert self.may_take.wait(60)


def test_a_cancelled_start_does_not_wait_for_its_sink(
    env: BaseEnvironment, monkeypatch: pytest.MonkeyPatch, nap: str
) -> None:
    sink, scope, start = _BlockingSink(), CancelScope(), Processes.start

    async def start_and_cancel(*args: Any) -> Any:
        process = await start(*args)
        await in_worker(sink.is_offered.wait, 60)
        scope.cancel()
        return process

    monkeypatch.setattr(Processes, "start", start_and_cancel)
    with scope.active(), pytest.raises(CallCancelledError, match="the scope"):
        env.start(f"echo begun; sleep {nap}", sink=sink)
    assert sink.is_offered.is_set()
    assert all_gone(nap)
    sink.may_take.set()


def test_an_unknown_option_of_start_is_an_error_that_names_the_known_ones(env: BaseEnvironment) -> None:
    for start in (env.start, env.internal.start):
        with pytest.raises(TypeError, match=r"unexpected keyword argument 'timeout'; start has cwd, env, .*, grace"):
            start("true", timeout=5)
    assert not env.busy


def test_an_environment_that_ends_right_behind_a_script_leaves_no_task(caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(5):
        with create_environment("local") as env:
            env.internal.start("sleep 0.003", stdin="none").wait(60)
        del env
    time.sleep(0.2)  # by then a spare shell would have been opened
    gc.collect()
    assert caplog.messages == []
