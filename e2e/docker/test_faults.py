"""Containers and engines that fail."""

from __future__ import annotations

import gc
import time
from pathlib import Path

import docker
import pytest
from targets.command_thread import CommandThread
from targets.engine_link import EngineLink
from targets.engines import MINIMAL_IMAGE

from code_execution import PythonSession, execute_code
from environments import EnvironmentLostError, EnvironmentStartError, ProcessTimeoutError, TerminalError
from environments.conformance.check import wait_until
from environments.loop import current
from environments.shell import files
from environments.shell.run import Running


def test_a_container_that_goes_away_is_named_and_the_next_command_works(docker_environment, container_of, engine):
    env = docker_environment()
    for fault in ("kill", "stop"):
        container = container_of(env)
        command = CommandThread(env, "echo begun; sleep 1000")
        container.kill() if fault == "kill" else container.stop(timeout=1)
        error = command.lost()
        assert container.short_id in str(error)
        assert error.output == "begun\n"
        assert env.execute("echo again").output == "again\n"
    container = container_of(env)
    container.kill()
    with pytest.raises(EnvironmentLostError, match="stopped"):
        env.execute("true")
    env.cleanup()
    assert is_gone(engine, container), "cleanup after a loss removes the container"


def test_a_container_removed_between_commands_is_an_error_once(docker_environment, container_of):
    env = docker_environment()
    env.execute("true")
    container = container_of(env)
    container.remove(force=True)
    with pytest.raises(EnvironmentLostError, match=container.short_id):
        env.execute("true")
    assert env.execute("echo again").output == "again\n"
    removed = env.target.id
    container_of(env).remove(force=True)
    with pytest.raises(EnvironmentLostError, match=removed[:12]):
        env.target  # noqa: B018 - the property looks the container up
    assert env.target.id != removed


@pytest.mark.parametrize("is_asked", [True, False])
def test_a_container_that_a_background_command_lost_is_an_error_once(is_asked, docker_environment, container_of):
    env = docker_environment()
    process = env.start("sleep 1000")
    container_of(env).remove(force=True)
    assert wait_until(lambda: not process.running, 60)
    with pytest.raises(EnvironmentLostError, match="was lost"):
        process.wait() if is_asked else env.execute("true")
    assert env.execute("echo again").output == "again\n"


def is_gone(engine, container) -> bool:
    return not engine.containers.list(all=True, filters={"id": container.id}, ignore_removed=True)


def pause(container) -> None:
    """Pause a container. The engine fails to freeze a container whose processes begin and end meanwhile.

    A process in the middle of its start would hold the engine's lock on the container until the unpause.
    """

    def starts(process: str) -> bool:
        try:
            state = api.exec_inspect(process)
        except docker.errors.NotFound:
            return False
        return bool(state["Running"]) and not state["Pid"]

    api = container.client.api
    assert wait_until(lambda: not any(map(starts, api.inspect_container(container.id)["ExecIDs"] or ())), 60)
    for _ in range(200):
        try:
            return container.pause()
        except docker.errors.APIError as error:
            if "freeze" not in str(error):
                raise
            time.sleep(0.1)
    raise AssertionError("the container could not be paused")


def test_a_paused_container_is_named_with_the_remedy_and_can_be_cleaned_up(docker_environment, container_of, engine):
    env = docker_environment()
    container = container_of(env)
    command = CommandThread(env, "echo begun; sleep 1000", timeout=2)
    pause(container)
    try:
        assert f"docker unpause {container.short_id}" in str(command.lost())
        with pytest.raises(EnvironmentStartError, match="docker unpause"):
            env.execute("true")
    finally:
        container.unpause()
    assert env.execute("echo again").output == "again\n"
    pause(container)
    env.cleanup()
    assert is_gone(engine, container)


def test_a_container_that_is_killed_after_a_command_ran_out_of_memory_was_not_ended_for_it(
    docker_environment, container_of
):
    env = docker_environment(container_memory=64)
    assert "out of memory" in env.execute("python3 -c 'bytearray(200 << 20)'").note
    container = container_of(env)
    time.sleep(1.5)  # an end right behind the kill may be due to the memory limit
    container.kill()
    with pytest.raises(EnvironmentLostError, match="stopped with exit code 137") as caught:
        env.execute("true")
    assert "memory" not in str(caught.value)


def test_a_command_out_of_memory_has_a_note_that_names_the_setting(docker_environment):
    env = docker_environment(container_memory=64)
    env.execute("cd /opt")
    note = "out of memory (container_memory is 64 MB)"
    for run in (env.execute, env.execute_oneshot):
        result = run("python3 -c 'x = bytearray(200 << 20)'", timeout=60)
        assert result.exit_code == 137
        assert note in result.note
    assert env.execute("pwd").output == "/opt\n"
    killed = env.execute("sh -c 'kill -9 $$'")
    assert (killed.exit_code, killed.note) == (137, None), "the memory limit was not the reason"
    script = execute_code("x = bytearray(200 << 20)", env=env, tools={}, timeout=60)
    assert script.exit_code == 137
    assert note in script.error and script.error in script.output
    with pytest.raises(EnvironmentLostError, match=r"out of memory \(container_memory is 64 MB\)"):
        env.execute("printf -v x '%*s' 300000000 ''", timeout=60)
    assert env.execute("echo again").output == "again\n"


# docker-py leaves a Unix socket that could not be connected to the garbage collector.
@pytest.mark.filterwarnings("ignore:.*unclosed <socket.*family=1:Warning")
def test_an_engine_that_goes_away_is_a_lost_target(docker_environment, monkeypatch, tmp_path: Path):
    socket_path = tmp_path / "engine.sock"
    monkeypatch.setenv("DOCKER_HOST", f"unix://{socket_path}")
    env = docker_environment()
    with EngineLink(socket_path, "/var/run/docker.sock"):
        env.execute("true")
        command = CommandThread(env, "echo begun; sleep 1000")
    assert "does not answer" in str(command.lost())
    with pytest.raises(TerminalError):
        env.execute("true")
    socket_path.unlink()
    with EngineLink(socket_path, "/var/run/docker.sock"):
        assert env.execute("echo again").output == "again\n"
        env.cleanup()
    del command
    gc.collect()


def test_a_full_disk_is_the_commands_own_error(docker_environment):
    env = docker_environment(docker_extra_args=("--tmpfs=/small:size=1m", "--tmpfs=/tmp:size=1m,exec"))
    assert "No space left" in env.execute("head -c 2M /dev/zero >/small/file").output
    with pytest.raises(TerminalError, match="No space left"):
        env.write_bytes("/small/other", bytes(2 << 20))
    assert env.execute("ls -A /small").output == "file\n", "no half of a file is left"
    env.execute("head -c 2M /dev/zero >/tmp/full")
    with pytest.raises(TerminalError, match="No space left"):
        env.execute("cat", stdin=bytes(1 << 20))
    assert env.execute("rm /tmp/full; echo fine").output == "fine\n"
    assert env.execute("wc -c", stdin=bytes(1 << 19)).output == f"{1 << 19}\n"


def test_a_read_only_root_leaves_tmp_to_write_in(docker_environment):
    env = docker_environment(docker_extra_args=("--read-only",))
    with pytest.raises(TerminalError, match="Read-only"):
        env.write_bytes("/root/file", b"x")
    env.write_bytes("/tmp/file", b"x" * 100_000)
    assert env.read_bytes("/tmp/file") == b"x" * 100_000
    assert env.execute("wc -c", stdin=b"y" * 100_000).output == "100000\n"


def test_base64_setsid_and_shared_memory_may_be_missing_and_nothing_is_left_in_tmp(docker_environment, tmp_path):
    tmp_path.chmod(0o777)
    env = docker_environment(
        image=MINIMAL_IMAGE, docker_extra_args=("--ipc=none",), docker_volumes=[f"{tmp_path}:/tmp"]
    )
    assert env.execute("rm $(command -v base64) $(command -v setsid); ls -d /dev/shm").exit_code != 0
    for name, data in (("small", b"small"), ("large", b"x" * 100_000)):
        env.write_bytes(f"/root/{name}", data)
        assert env.read_bytes(f"/root/{name}") == data
    assert env.execute("sleep 1000", timeout=0.5).timed_out
    assert env.execute("wc -c", stdin=b"y" * 200_000).output.strip() == "200000"
    assert env.internal.scratch_directory().startswith("/tmp/")
    env.cleanup()
    assert not list(tmp_path.iterdir()), "it is a directory of this machine"


def test_a_shell_that_ignores_all_signals_is_gone_after_the_time_out(shared):
    """With Docker, the end of its stream does not end a shell."""
    result = shared.execute("echo $$; trap '' 50 TERM; while :; do :; done", timeout=0.3)
    assert result.timed_out
    assert shared.execute(f"test -e /proc/{result.output}").exit_code == 1


def test_an_upload_that_fails_behind_its_last_byte_ends_no_other_process(docker_environment, tmp_path, monkeypatch):
    (tmp_path / "file").write_bytes(bytes(1000))
    pieces, read_input, interrupt = files.read_pieces, files.reading_input, Running.interrupt

    def pieces_and_error(*arguments):
        yield from pieces(*arguments)
        raise OSError("the disk is gone")

    def interrupt_late(running: Running) -> None:  # as over a slow link: the command has succeeded by then
        current().loop.call_later(2.0, interrupt, running)

    env = docker_environment()
    process = env.start("echo begun; read line; echo $line", stdin="open")
    process.expect("begun\n")
    with PythonSession(env) as python:
        python.execute("kept = 'kept'")
        with monkeypatch.context() as fault:
            fault.setattr(files, "read_pieces", pieces_and_error)
            fault.setattr(files, "reading_input", lambda size: f"{{ sleep 1; {read_input(size)}; }}")
            fault.setattr(Running, "interrupt", interrupt_late)
            with pytest.raises(OSError, match="the disk is gone"):
                env.put_file(tmp_path / "file", "/tmp/file")
        with pytest.raises(ProcessTimeoutError):
            process.expect("anything", timeout=3.0)
        process.write("on\n")
        assert (process.wait(60), process.read()) == (0, "on\n")
        kept = python.execute("kept")
        assert (kept.value, kept.note) == ("'kept'", None)
