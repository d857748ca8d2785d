"""Containers and their settings. The contract itself is in environments/conformance."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest
from targets.docker_fixtures import containers_of
from targets.engines import MINIMAL_IMAGE, PYTHON_IMAGE

from environments import EnvironmentStartError, UnsupportedError, create_environment
from environments.docker import DockerEnvironment
from environments.progress import Progress

VOLUME = f"t-{secrets.token_hex(4)}"
SECRET = secrets.token_hex(16)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a directory of this machine with two subdirectories to mount."""
    folder = tmp_path_factory.mktemp("mounted")
    (folder / "rw").mkdir()
    (folder / "ro").mkdir()
    return folder


@pytest.fixture(scope="module")
def custom(engine: docker.DockerClient, folder: Path) -> Iterator[DockerEnvironment]:
    """Start a container with many settings."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FORWARDED", SECRET)
        patch.delenv("MISSING", raising=False)
        env = create_environment(
            "docker",
            image=PYTHON_IMAGE,
            docker_user="agent",
            docker_network=False,
            docker_tmp_size=2,
            docker_volumes=(f"{folder}/rw:/data", f"{folder}/ro:/fixed:ro", f"{VOLUME}:/kept"),
            docker_env={"GIVEN": "a 'b'\nc"},
            docker_forward_env=("FORWARDED", "MISSING"),
            container_cpu=0.5,
            container_memory=64,
            container_pids=50,
        )
        assert isinstance(env, DockerEnvironment)
        with env:
            env.execute("true")
            yield env
    engine.volumes.get(VOLUME).remove()


def test_a_container_is_hardened_by_default(shared, container_of):
    status = shared.execute("cat /proc/self/status").output
    assert "NoNewPrivs:\t1" in status
    chown, dac_override, fowner, fsetid, kill, setgid, setuid = 0, 1, 3, 4, 5, 6, 7
    seven = sum(1 << kept for kept in (chown, dac_override, fowner, fsetid, kill, setgid, setuid))
    for kind in ("CapPrm", "CapEff", "CapBnd"):
        assert int(status.partition(f"{kind}:")[2].split()[0], 16) == seven
    host = container_of(shared).attrs["HostConfig"]
    assert (host["CapDrop"], host["Init"], host["PidsLimit"], host["Privileged"]) == (["ALL"], True, 256, False)
    assert (host["Memory"], host["MemorySwap"]) == (4096 << 20, 4096 << 20)


def test_tmp_is_in_memory_and_programs_run_from_it(shared):
    assert shared.execute("stat -f -c %T /tmp").output == "tmpfs\n"
    assert shared.execute("cp /bin/true /tmp/mine && /tmp/mine").ok


def test_by_default_there_is_a_network_and_without_one_only_loopback(shared, custom):
    assert "eth0" in shared.execute("ls /sys/class/net").output
    assert custom.execute("ls /sys/class/net").output == "lo\n"
    with pytest.raises(UnsupportedError, match="has no network"):
        custom.address(80)


def test_limits_are_those_of_the_settings(custom, container_of):
    host = container_of(custom).attrs["HostConfig"]
    assert (host["NanoCpus"], host["Memory"], host["MemorySwap"], host["PidsLimit"]) == (5e8, 64 << 20, 64 << 20, 50)
    assert custom.capabilities.enforced_limits == {"container_cpu", "container_memory", "container_pids"}
    assert "No space left" in custom.execute("head -c 3M /dev/zero >/tmp/file").output
    assert custom.execute("rm /tmp/file; echo fine").output == "fine\n"


def test_a_limit_of_zero_is_none_and_commands_run_as_the_user_of_this_process(docker_environment, container_of):
    limits = dict.fromkeys(("container_cpu", "container_memory", "container_disk", "container_pids"), 0)
    env = docker_environment(**limits, docker_run_as_host_user=True)
    host = container_of(env).attrs["HostConfig"]
    assert not any(host[name] for name in ("NanoCpus", "Memory", "PidsLimit"))
    assert env.capabilities.enforced_limits == frozenset()
    assert env.execute("echo $(id -u):$(id -g)").output == f"{os.getuid()}:{os.getgid()}\n"


def test_a_disk_limit_and_gpus_are_had_or_refused_and_nothing_is_left(docker_environment, engine):
    info, task = engine.info(), f"t-{secrets.token_hex(4)}"
    if dict(info["DriverStatus"]).get("Backing Filesystem") == "xfs":
        assert not docker_environment(container_disk=100).execute("head -c 200M /dev/zero >/big").ok
    else:
        with pytest.raises(UnsupportedError, match=r"docker.*container_disk"):
            docker_environment(container_disk=100, task_id=task).execute("true")
    if "nvidia" in info["Runtimes"]:
        assert docker_environment(docker_gpus="all").execute("true").ok
    else:
        with pytest.raises(UnsupportedError, match="gpus"):
            docker_environment(docker_gpus="all", task_id=task).execute("true")
    assert not containers_of(engine, task)


def test_volumes_are_mounted_and_read_only_ones_are(custom, folder: Path):
    (folder / "rw").chmod(0o777)
    assert custom.execute("id -un; echo there >/data/file").output == "agent\n"
    assert (folder / "rw" / "file").read_text() == "there\n"
    assert "Read-only file system" in custom.execute("echo no >/fixed/file").output
    assert custom.execute("mountpoint -q /kept").ok


def test_a_mount_whose_source_is_missing_is_an_error_and_nothing_is_made(docker_environment, tmp_path: Path):
    missing = tmp_path / "dataset"
    (tmp_path / "datasets").mkdir()
    volume = f"{missing}:/data"
    for settings in ({"docker_volumes": (volume,)}, {"docker_extra_args": ("-v", volume)}):
        with pytest.raises(EnvironmentStartError, match=rf"{missing}[^s](.|\n)*did you mean 'datasets'\?"):
            docker_environment(**settings).execute("true")
    assert not missing.exists()


def test_the_working_directory_is_mounted_at_workspace(docker_environment, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("mine")
    env = docker_environment(docker_mount_cwd_to_workspace=True)
    assert env.execute("pwd; cat file").output == "/workspace\nmine"


def test_variables_reach_commands_and_terminals_and_show_nowhere_else(custom, container_of):
    ask = 'echo "$GIVEN|$FORWARDED|${MISSING-unset}"'
    for run in (custom.execute, custom.execute_oneshot):
        assert run(ask).output == f"a 'b'\nc|{SECRET}|unset\n"
    process = custom.start('echo "$FORWARDED"', pty=True)
    process.wait(30)
    assert process.read() == f"{SECRET}\r\n"
    container = container_of(custom)
    execs = [container.client.api.exec_inspect(each) for each in container.attrs["ExecIDs"]]
    for shown in (container.attrs, container.top(), execs, repr(custom), repr(custom.settings)):
        assert SECRET not in str(shown)


def test_large_files_go_both_ways_into_memory_and_onto_the_disk(docker_environment, tmp_path: Path):
    env = docker_environment(docker_user="agent")
    data = secrets.token_bytes(1 << 20) * 20
    local = tmp_path / "data"
    local.write_bytes(data)
    for place in ("/tmp/in memory", "/workspace/sub/on disk"):
        env.put_file(local, place)
        assert env.execute(f"stat -c '%U %s' '{place}'").output == f"agent {len(data)}\n"
        env.get_file(place, tmp_path / "back")
        assert (tmp_path / "back").read_bytes() == data


def test_an_image_without_bash_and_python_runs_commands(docker_environment):
    env = docker_environment(image=MINIMAL_IMAGE)
    assert env.capabilities.shell == "sh"
    env.execute("cd /opt; export KEPT=yes")
    assert env.execute("pwd; echo $KEPT; command -v bash python3").output == "/opt\nyes\n"
    assert env.execute("sleep 1000", timeout=0.5).timed_out
    process = env.start("stty size; read -r line; echo got $line", pty=True, rows=30, columns=90)
    process.write("hello\n")
    assert process.wait(30) == 0
    text = process.read()
    assert "30 90" in text and "got hello" in text


def test_the_working_directory_is_made_for_the_user_where_it_is_missing(docker_environment):
    show = "pwd; touch here && stat -c '%U %a' . .."
    env = docker_environment(user="agent", cwd="/new/place")
    assert env.execute(show).output == "/new/place\nagent 755\nroot 755\n"
    env = docker_environment(user="agent", cwd="~/new/place")
    assert env.execute(show).output == "/home/agent/new/place\nagent 755\nagent 755\n"
    assert env.target.enter[-3:-2] == ("/home/agent/new/place",)
    env = docker_environment(cwd="/new/place", extra_args=["--read-only"])
    with pytest.raises(EnvironmentStartError, match="/new/place cannot be entered"):
        env.execute("true")


def test_progress_names_each_step_and_cleanup_removes_the_container(engine):
    reported: list[Progress] = []
    with create_environment("docker", image=PYTHON_IMAGE, on_progress=reported.append) as env:
        env.execute("(trap '' TERM; setsid sleep 1000) >/dev/null 2>&1 &")
        container = env.target.id
    first, connecting, making, started = [each.what for each in reported]
    assert (first, making) == ("starting", "starting a container") and connecting.startswith("connecting to the engine")
    assert started.startswith("started in ")
    assert {each.backend for each in reported} == {"docker"}
    with pytest.raises(docker.errors.NotFound):
        engine.containers.get(container)
