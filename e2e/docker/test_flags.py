"""Each flag of `docker_extra_args` reaches the engine: given, it is in what `docker inspect` shows."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import docker
import pytest
from targets.engines import PYTHON_IMAGE

from environments import TerminalError, create_environment, load_settings
from environments.docker.creation import container_options
from environments.docker.flags import FLAGS

Inspected = dict[str, Any]


def host(key: str, expected: object) -> Callable[[Inspected], bool]:
    return lambda made: made["HostConfig"][key] == expected


def host_has(key: str, *expected: object) -> Callable[[Inspected], bool]:
    return lambda made: all(one in made["HostConfig"][key] for one in expected)


def config(key: str, expected: object) -> Callable[[Inspected], bool]:
    return lambda made: made["Config"][key] == expected


STARTED: dict[str, tuple[list[str], Callable[[Inspected], bool]]] = {
    "--add-host": (["--add-host=db:10.0.0.9"], host_has("ExtraHosts", "db:10.0.0.9")),
    "--cap-add": (["--cap-add=NET_RAW"], host_has("CapAdd", "NET_RAW", "CHOWN")),
    "--cap-drop": (["--cap-drop=KILL"], host_has("CapDrop", "KILL", "ALL")),
    "--cgroup-parent": (["--cgroup-parent=/hermes-flags"], host("CgroupParent", "/hermes-flags")),
    "--cpu-shares": (["--cpu-shares=512"], host("CpuShares", 512)),
    "--cpus": (["--cpus=0.5"], host("NanoCpus", 500_000_000)),
    "--cpuset-cpus": (["--cpuset-cpus=0"], host("CpusetCpus", "0")),
    "--device": (["--device=/dev/null:/dev/nothing"], lambda made: _device(made) == "/dev/nothing"),
    "--dns": (["--dns=10.0.0.8"], host("Dns", ["10.0.0.8"])),
    "--dns-search": (["--dns-search=example.org"], host("DnsSearch", ["example.org"])),
    "--group-add": (["--group-add=1234"], host("GroupAdd", ["1234"])),
    "--hostname": (["-h", "flagged"], config("Hostname", "flagged")),
    "--init": (["--init=false"], host("Init", False)),
    "--ipc": (["--ipc=private"], host("IpcMode", "private")),
    "--label": (["-l", "flag=label"], lambda made: made["Config"]["Labels"]["flag"] == "label"),
    "--memory": (["-m", "200m"], host("Memory", 200 << 20)),
    "--memory-swap": (["--memory-swap=300m"], host("MemorySwap", 300 << 20)),
    "--network": (["--network=bridge"], host("NetworkMode", "bridge")),
    "--pid": (["--pid=host"], host("PidMode", "host")),
    "--pids-limit": (["--pids-limit=99"], host("PidsLimit", 99)),
    "--publish": (["-p", "127.0.0.1::8000"], lambda made: list(made["HostConfig"]["PortBindings"]) == ["8000/tcp"]),
    "--read-only": (["--read-only"], host("ReadonlyRootfs", True)),
    "--runtime": (["--runtime=runc"], host("Runtime", "runc")),
    "--security-opt": (["--security-opt=apparmor=unconfined"], host_has("SecurityOpt", "apparmor=unconfined")),
    "--shm-size": (["--shm-size=8m"], host("ShmSize", 8 << 20)),
    "--sysctl": (["--sysctl=net.ipv4.ip_forward=1"], host("Sysctls", {"net.ipv4.ip_forward": "1"})),
    "--tmpfs": (["--tmpfs=/scratch:size=1m"], lambda made: made["HostConfig"]["Tmpfs"]["/scratch"] == "size=1m"),
    "--ulimit": (
        ["--ulimit=nofile=1024:2048"],
        host("Ulimits", [{"Name": "nofile", "Soft": 1024, "Hard": 2048}]),
    ),
    "--user": (["-u", "1000"], config("User", "1000")),
    "--volume": (["-v", "/usr/share:/shared:ro"], lambda made: "/shared" in _mounts(made)),
    "--workdir": (["-w", "/usr"], config("WorkingDir", "/usr")),
}
"""Flags of one container that is started, with what is then to be seen."""

CREATED: dict[str, tuple[list[str], Callable[[Inspected], bool]]] = {
    "--gpus": (["--gpus=2"], lambda made: made["HostConfig"]["DeviceRequests"][0]["Count"] == 2),
    "--privileged": (["--privileged"], host("Privileged", True)),
    "--userns": (["--userns=host"], host("UsernsMode", "host")),
    "--volumes-from": (["--volumes-from=SOURCE"], lambda made: made["HostConfig"]["VolumesFrom"] is not None),
}
"""Flags that not every machine can start a container with."""

ELSEWHERE = {"--env": "a variable of each process, not of the container", "--platform": "an image for it is needed"}
REFUSED = {"--storage-opt=size=1g": "size|quota|storage", "--runtime=nosuch": "nosuch"}
"""Flags that this machine's engine refuses, with what its refusal names; passed over, the container would start."""


def _device(made: Inspected) -> str:
    return str(made["HostConfig"]["Devices"][0]["PathInContainer"])


def _mounts(made: Inspected) -> list[str]:
    return [mount["Destination"] for mount in made["Mounts"]]


def _failed(rows: dict[str, tuple[list[str], Callable[[Inspected], bool]]], made: Inspected) -> list[str]:
    def holds(check: Callable[[Inspected], bool]) -> bool:
        try:
            return check(made)
        except (IndexError, KeyError, TypeError):
            return False

    return [name for name, (_, check) in rows.items() if not holds(check)]


def test_every_flag_is_in_one_of_the_tables() -> None:
    assert FLAGS.keys() == STARTED.keys() | CREATED.keys() | ELSEWHERE.keys() | {
        flag.partition("=")[0] for flag in REFUSED
    }


def test_a_started_container_has_what_its_flags_ask_for(engine: docker.DockerClient, nap: str) -> None:
    arguments = [word for words, _ in STARTED.values() for word in words]
    label = f"flags={nap}"
    with create_environment("docker", image=PYTHON_IMAGE, docker_extra_args=[*arguments, "-l", label]) as env:
        assert env.execute("hostname; pwd; id -u").output == "flagged\n/usr\n1000\n"
        (container,) = engine.containers.list(filters={"label": label})
        assert _failed(STARTED, container.attrs) == [], json.dumps(container.attrs["HostConfig"])


def test_a_created_container_has_what_its_flags_ask_for(engine: docker.DockerClient) -> None:
    source = engine.api.create_container(PYTHON_IMAGE, ["true"])["Id"]
    made = [source]
    try:
        words = [word.replace("SOURCE", source) for words, _ in CREATED.values() for word in words]
        options = container_options(load_settings("docker", docker_extra_args=words))
        asked = engine.api.create_host_config(**options.host)
        made.append(engine.api.create_container(PYTHON_IMAGE, ["true"], host_config=asked, **options.config)["Id"])
        assert _failed(CREATED, engine.api.inspect_container(made[1])) == []
    finally:
        for container in made:
            engine.api.remove_container(container)


@pytest.mark.parametrize("flag", REFUSED)
def test_what_the_engine_cannot_do_is_refused_and_not_passed_over(flag: str) -> None:
    with (
        create_environment("docker", image=PYTHON_IMAGE, docker_extra_args=[flag]) as env,
        pytest.raises(TerminalError, match=REFUSED[flag]),
    ):
        env.execute("true")
