from __future__ import annotations

import gc
import socket
import threading
import time
from pathlib import Path

import docker
import pytest
from targets.engines import MINIMAL_IMAGE

from code_execution import execute_code
from environments import EnvironmentLostError, EnvironmentStartError, TerminalError, create_environment
from environments.conformance.check import wait_until


class Running:
    """A command that runs in a thread while the test causes a fault."""

    def __init__(self, env, command: str, **arguments: object) -> None:
        self.result = self.error = None
        self._env, self._command, self._arguments = env, command, arguments
        self._began = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        assert self._began.wait(30)

    def _run(self) -> None:
        try:
            began = lambda _: self._began.set()  # noqa: E731
            self.result = self._env.execute(f"echo begun; {self._command}", on_output=began, **self._arguments)
        except TerminalError as error:
            self.error = error

    def join(self) -> None:
        self._thread.join(60)
        assert not self._thread.is_alive()


@pytest.mark.parametrize("fault", ["remove", "kill", "stop"])
def test_a_container_that_goes_away_is_named_and_the_next_command_works(fault, docker_environment, container_of):
    env = docker_environment()
    container = container_of(env)
    command = Running(env, "sleep 1000")
    if fault == "remove":
        container.remove(force=True)
    elif fault == "kill":
        container.kill()
    else:
        container.stop(timeout=1)
    command.join()
    assert isinstance(command.error, EnvironmentLostError)
    assert container.short_id in str(command.error)
    assert command.error.output == "begun\n"
    assert env.execute("echo again").output == "again\n"


def test_a_container_removed_between_commands_is_an_error_once(docker_environment, container_of):
    env = docker_environment()
    env.execute("true")
    container_of(env).remove(force=True)
    with pytest.raises(EnvironmentLostError, match="removed"):
        env.execute("true")
    assert env.execute("echo again").output == "again\n"


@pytest.mark.parametrize("is_asked", [True, False])
def test_a_container_that_a_background_command_lost_is_an_error_once(is_asked, docker_environment, container_of):
    env = docker_environment()
    process = env.start("sleep 1000")
    container_of(env).remove(force=True)
    assert wait_until(lambda: not process.running)
    with pytest.raises(EnvironmentLostError, match="was lost"):
        process.wait() if is_asked else env.execute("true")
    assert env.execute("echo again").output == "again\n"


def is_gone(engine, container) -> bool:
    return not engine.containers.list(all=True, filters={"id": container.id})


def test_cleanup_after_a_loss_removes_the_container(docker_environment, container_of, engine):
    env = docker_environment()
    container = container_of(env)
    container.kill()
    with pytest.raises(EnvironmentLostError, match="stopped"):
        env.execute("true")
    env.cleanup()
    assert is_gone(engine, container)


def pause(container) -> None:
    """Pause a container; the engine fails to freeze one whose processes begin and end meanwhile."""
    for _ in range(20):
        try:
            return container.pause()
        except docker.errors.APIError as error:
            if "freeze" not in str(error):
                raise
            time.sleep(0.1)
    raise AssertionError("the container could not be paused")


def test_a_paused_container_is_named_with_the_remedy(docker_environment, container_of):
    env = docker_environment()
    container = container_of(env)
    command = Running(env, "sleep 1000", timeout=5)
    pause(container)
    try:
        command.join()
        assert isinstance(command.error, EnvironmentLostError)
        assert f"docker unpause {container.short_id}" in str(command.error)
        with pytest.raises(EnvironmentStartError, match="docker unpause"):
            env.execute("true")
    finally:
        container.unpause()
    assert env.execute("echo again").output == "again\n"


def test_a_paused_container_can_be_cleaned_up(docker_environment, container_of, engine):
    env = docker_environment()
    container = container_of(env)
    pause(container)
    env.cleanup()
    assert is_gone(engine, container)


@pytest.mark.parametrize("run", ["execute", "execute_oneshot"])
def test_a_command_out_of_memory_says_so_and_the_session_goes_on(run, docker_environment):
    env = docker_environment(container_memory=64)
    env.execute("cd /opt")
    result = getattr(env, run)("python3 -c 'x = bytearray(200 << 20)'", timeout=60)
    assert result.exit_code == 137
    assert "out of memory (container_memory is 64 MB)" in result.note
    assert env.execute("pwd").output == "/opt\n"
    killed = env.execute("sh -c 'kill -9 $$'")
    assert (killed.exit_code, killed.note) == (137, None), "that was nobody's limit"


def test_a_script_out_of_memory_says_so(docker_environment):
    env = docker_environment(docker_extra_args=("--memory=64m",))
    result = execute_code("x = bytearray(200 << 20)", env=env, tools={}, timeout=60)
    assert result.exit_code == 137
    assert "out of memory (--memory of docker_extra_args is 64m)" in result.error
    assert result.error in result.output


def test_a_shell_out_of_memory_says_so_and_names_the_setting(docker_environment):
    env = docker_environment(container_memory=64)
    with pytest.raises(EnvironmentLostError, match=r"out of memory \(container_memory is 64 MB\)"):
        env.execute("printf -v x '%*s' 300000000 ''", timeout=60)
    assert env.execute("echo again").output == "again\n"


def test_an_engine_that_is_not_there_is_named_with_the_remedy(monkeypatch, tmp_path: Path):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no.sock")
    with create_environment("docker") as env, pytest.raises(EnvironmentStartError) as caught:
        env.execute("true")
    assert f"{tmp_path}/no.sock" in str(caught.value) and "DOCKER_HOST" in str(caught.value)


# docker-py leaves a Unix socket that could not be connected to the garbage collector.
@pytest.mark.filterwarnings("ignore:.*unclosed <socket.*family=1:Warning")
def test_an_engine_that_goes_away_is_a_lost_target(docker_environment, monkeypatch, tmp_path: Path):
    door = tmp_path / "engine.sock"
    gate = Gate(door)
    monkeypatch.setenv("DOCKER_HOST", f"unix://{door}")
    env = docker_environment()
    env.execute("true")
    command = Running(env, "sleep 1000")
    gate.shut()
    command.join()
    assert isinstance(command.error, EnvironmentLostError)
    assert "does not answer" in str(command.error)
    with pytest.raises(TerminalError):
        env.execute("true")
    gate = Gate(door)
    assert env.execute("echo again").output == "again\n"
    env.cleanup()
    gate.shut()
    del command
    gc.collect()


class Gate:
    """A socket that leads to the engine until it is shut."""

    def __init__(self, path: Path) -> None:
        path.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._open = [self._listener]
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def _accept(self) -> None:
        while True:
            try:
                ours, _ = self._listener.accept()
            except OSError:
                return
            theirs = socket.socket(socket.AF_UNIX)
            theirs.connect("/var/run/docker.sock")
            self._open += [ours, theirs]
            for source, target in ((ours, theirs), (theirs, ours)):
                thread = threading.Thread(target=self._pass_on, args=(source, target))
                self._threads.append(thread)
                thread.start()

    @staticmethod
    def _pass_on(source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            return

    def shut(self) -> None:
        for each in self._open:
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue
        for thread in self._threads:
            thread.join(10)
        for each in self._open:
            each.close()


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
    assert "Read-only" in env.execute("touch /root/file").output
    with pytest.raises(TerminalError, match="Read-only"):
        env.write_bytes("/root/file", b"x")
    env.write_bytes("/tmp/file", b"x" * 100_000)
    assert env.read_bytes("/tmp/file") == b"x" * 100_000
    assert env.execute("wc -c", stdin=b"y" * 100_000).output == "100000\n"


@pytest.mark.parametrize("image", [None, MINIMAL_IMAGE], ids=["with bash", "without"])
def test_base64_setsid_and_shared_memory_may_be_missing(image, docker_environment):
    settings = {"image": image} if image else {}
    env = docker_environment(docker_extra_args=("--ipc=none",), **settings)
    assert env.execute("rm $(command -v base64) $(command -v setsid); ls -d /dev/shm").exit_code != 0
    env.write_bytes("/root/file", b"small")
    env.write_bytes("/root/large", b"x" * 100_000)
    assert env.read_bytes("/root/file") == b"small"
    assert env.read_bytes("/root/large") == b"x" * 100_000
    assert env.execute("sleep 1000", timeout=0.5).timed_out
    assert env.execute("wc -c", stdin=b"y" * 100_000).output.strip() == "100000"


def test_a_background_child_holding_the_output_does_not_delay_a_shell_that_was_replaced(docker_environment):
    env = docker_environment()
    began = time.monotonic()
    assert env.execute("sleep 60 & exec echo replaced").output == "replaced\n"
    assert time.monotonic() - began < 30


def test_nothing_of_ours_is_left_in_a_directory_of_this_machine_that_is_mounted_at_tmp(docker_environment, tmp_path):
    tmp_path.chmod(0o777)
    env = docker_environment(volumes=[f"{tmp_path}:/tmp"])
    assert env.execute("wc -c", stdin="x" * 200_000).output == "200000\n"
    assert env.scratch_directory().startswith("/tmp/")
    env.cleanup()
    assert not list(tmp_path.iterdir())
