"""Peculiarities of instances on a host over SSH. The contract is in test_contract."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from targets.engines import Singularity, require_singularity
from targets.ssh_server import SSHServer
from targets.stopped_starts import by_interrupt, our_threads

from environments import EnvironmentStartError, create_environment
from environments.conformance.check import wait_until
from environments.singularity import SingularityEnvironment

Over = dict[str, object]
Make = Callable[..., SingularityEnvironment]


@pytest.fixture(scope="module")
def images() -> Singularity:
    return require_singularity()


@pytest.fixture
def make(server: SSHServer, images: Singularity) -> Iterator[Make]:
    """Make environments on the host. They are cleaned up in the end."""
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
    """Return the error of an environment that does not start."""
    with pytest.raises(error) as raised, create_environment("singularity", **settings) as env:
        env.execute("true")
    return str(raised.value)


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
    images: Singularity, start_host: Callable[[str], SSHServer]
) -> None:
    server = start_host("PATH=/usr/bin:/bin")
    profile = server.home / ".profile"
    profile.write_text(f"echo hello\nPATH={images.program.parent}:$PATH\n")
    settings = {**server.over, "image": str(images.sandbox)}
    with create_environment("singularity", **settings) as env:
        assert env.execute("echo inside").output == "inside\n"
        assert f"at {images.program.parent}/" in SingularityEnvironment.probe(env.settings)


def test_a_host_without_the_program_is_an_error(host_without_engines: Over) -> None:
    said = refused(EnvironmentStartError, **host_without_engines)
    assert "neither apptainer nor singularity is on PATH of agent@" in said
    assert "install Apptainer" in said


def test_a_pull_there_ends_with_the_start_that_was_stopped(
    start_host: Callable[[str], SSHServer], program: Callable[[str, str], Path], nap: str, tmp_path: Path
) -> None:
    # The killed program leaves a child. The child is killed too.
    programs = program("apptainer", f"sleep {nap} & touch {shlex.quote(str(tmp_path))}/begun; wait")
    server = start_host(f"PATH={programs}:$PATH")
    env = create_environment("singularity", **server.over, image="docker://127.0.0.1:9/none:latest")
    by_interrupt(env, lambda: wait_until((tmp_path / "begun").exists))
    assert wait_until(lambda: not running(nap))
    env.cleanup()
    assert wait_until(lambda: not our_threads()), our_threads()
    assert not [path for path in (server.home / ".hermes").rglob("*") if path.is_file()]


def running(word: str) -> list[int]:
    """Return this machine's processes with a word among their arguments."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if word.encode() in words:
            found.append(int(path.parent.name))
    return found
