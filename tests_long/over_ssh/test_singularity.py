"""What is particular to instances on a host that is reached over SSH. The contract is in test_contract."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from targets.engines import Singularity, require_singularity
from targets.ssh_server import SSHServer
from targets.stopped_starts import by_interrupt, our_threads

from environments import EnvironmentLostError, EnvironmentStartError, SettingsError, create_environment
from environments.conformance.check import wait_until
from environments.singularity import SingularityEnvironment

Over = dict[str, object]
Make = Callable[..., SingularityEnvironment]


@pytest.fixture(scope="module")
def images() -> Singularity:
    return require_singularity()


@pytest.fixture
def make(server: SSHServer, images: Singularity) -> Iterator[Make]:
    """Makes environments on the host, which are cleaned up in the end."""
    made: list[SingularityEnvironment] = []

    def make(**settings: object) -> SingularityEnvironment:
        env = create_environment("singularity", **{"image": str(images.sandbox), **server.over, **settings})
        assert isinstance(env, SingularityEnvironment)
        made.append(env)
        return env

    yield make
    for env in made:
        env.cleanup()


def refused(error: type[Exception], **settings: object) -> str:
    """Return why an environment does not start."""
    with pytest.raises(error) as raised, create_environment("singularity", **settings) as env:
        env.execute("true")
    return str(raised.value)


def test_a_dropped_link_loses_neither_the_instance_nor_the_session(make: Make, server: SSHServer) -> None:
    env = make()
    env.execute("cd /var; export KEPT=kept; echo here >/tmp/file")
    env.execute("true")  # which the shell reads once it has reported what the first has left
    name = env.target.id
    server.kill_connections()
    with contextlib.suppress(EnvironmentLostError):  # if it drops just behind the command
        env.execute("true")
    assert env.execute("pwd; echo $KEPT; cat /tmp/file").output == "/var\nkept\nhere\n"
    assert env.target.id == name
    assert env.target.host == "127.0.0.1"
    assert env.target.enter[0] == "ssh"


def test_files_are_kept_on_the_host_for_all_environments_of_a_process(make: Make, server: SSHServer, nap: str) -> None:
    kept = {"container_persistent": True, "task_id": f"kept-{os.getpid()}"}
    first, second = make(**kept), make(**kept)
    first.execute("echo first >/opt/file; echo $HOSTNAME")
    assert second.execute("cat /opt/file").output == "first\n"
    first.cleanup()
    assert second.execute("cat /opt/file; echo second >/opt/file").output == "first\n"
    second.cleanup()
    assert make(**kept).execute("cat /opt/file").output == "second\n"
    (folder,) = (server.home / ".hermes" / "singularity" / "kept").iterdir()
    assert (folder / "overlay").is_dir()


def test_a_disk_limit_is_a_file_system_that_goes_with_the_instance(make: Make, server: SSHServer) -> None:
    env = make(container_disk=64)
    assert env.execute("head -c 90000000 /dev/zero >/var/tmp/file").exit_code != 0
    env.cleanup()
    assert not list(Path("/tmp").glob("hermes-overlay-*/overlay.img"))


def test_the_program_is_found_on_the_path_of_a_login_shell(
    images: Singularity, machine_where: Callable[[str], SSHServer]
) -> None:
    server = machine_where("PATH=/usr/bin:/bin")
    profile = server.home / ".profile"
    profile.write_text(f"echo hello\nPATH={images.program.parent}:$PATH\n")
    settings = {**server.over, "image": str(images.sandbox)}
    with create_environment("singularity", **settings) as env:
        assert env.execute("echo inside").output == "inside\n"
        assert f"at {images.program.parent}/" in SingularityEnvironment.probe(env.settings)


def test_a_host_without_the_program_is_told_of(machine_without_engines: Over) -> None:
    said = refused(EnvironmentStartError, **machine_without_engines)
    assert "neither apptainer nor singularity is on PATH of agent@" in said
    assert "install Apptainer" in said


def test_a_host_that_cannot_be_reached_is_told_of_as_ssh_does(server: SSHServer) -> None:
    said = refused(EnvironmentStartError, **{**server.over, "ssh_port": 1})
    assert "cannot connect to" in said and "nothing listens there" in said


def test_what_is_not_on_the_host_is_named_with_the_host(server: SSHServer, images: Singularity) -> None:
    said = refused(EnvironmentStartError, **server.over, image="~/none.sif")
    assert f"there is no image {server.home}/none.sif on " in said
    said = refused(SettingsError, **server.over, image=str(images.sandbox), binds=["/nowhere:/mnt"])
    assert "there is no /nowhere on " in said and f"127.0.0.1:{server.port}" in said


def test_a_pull_there_ends_with_the_start_that_was_stopped(
    machine_where: Callable[[str], SSHServer], program: Callable[[str, str], Path], nap: str, tmp_path: Path
) -> None:
    # The program that is ended leaves a child, which is ended too.
    programs = program("apptainer", f"sleep {nap} & touch {shlex.quote(str(tmp_path))}/begun; wait")
    server = machine_where(f"PATH={programs}:$PATH")
    env = create_environment("singularity", **server.over, image="docker://127.0.0.1:9/none:latest")
    by_interrupt(env, lambda: wait_until((tmp_path / "begun").exists))
    assert wait_until(lambda: not running(nap))
    env.cleanup()
    assert wait_until(lambda: not our_threads()), our_threads()
    assert not [path for path in (server.home / ".hermes").rglob("*") if path.is_file()]


def running(word: str) -> list[int]:
    """Return the processes of this machine with a word among their arguments."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if word.encode() in words:
            found.append(int(path.parent.name))
    return found


def test_a_link_that_drops_under_a_command_is_an_error_with_the_output_so_far(make: Make, server: SSHServer) -> None:
    env = make()
    began: list[str] = []
    errors: list[Exception] = []

    def run() -> None:
        try:
            env.execute("echo begun; sleep 1000", timeout=60, on_output=began.append)
        except EnvironmentLostError as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    assert wait_until(lambda: bool(began))
    server.kill_connections()
    thread.join(60)
    (error,) = errors
    assert "dropped" in str(error) and getattr(error, "output", "") == "begun\n"


def test_an_instance_killed_while_idle_is_noticed_and_replaced(make: Make) -> None:
    env = make()
    env.execute("true")
    before = env.target.id
    os.kill(env._instance.pid, signal.SIGKILL)  # type: ignore[union-attr]
    assert wait_until(lambda: env.target_loss() is not None)
    with pytest.raises(EnvironmentLostError, match="its first process was killed"):
        env.execute("true")
    assert env.execute("echo again").output == "again\n"
    assert env.target.id != before
