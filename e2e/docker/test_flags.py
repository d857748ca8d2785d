"""Flags of `docker run`: each is refused by name, or shows in the engine's description of the container."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import docker
import pytest
from targets.engines import PYTHON_IMAGE
from targets.podman_service import podman_service

from environments import TerminalError, UnsupportedError, create_environment, load_settings
from environments.docker.creation import container_options, create_container
from environments.docker.engine import DockerEngine
from environments.docker.flags import FLAGS, REFUSED

Inspected = dict[str, Any]
Row = tuple[list[str], Callable[[Inspected], object]]


def host(key: str, expected: object) -> Callable[[Inspected], bool]:
    return lambda made: made["HostConfig"][key] == expected


def host_has(key: str, *expected: object) -> Callable[[Inspected], bool]:
    return lambda made: all(one in made["HostConfig"][key] for one in expected)


def config(key: str, expected: object) -> Callable[[Inspected], bool]:
    return lambda made: made["Config"][key] == expected


def of_device(key: str, amount: str, expected: int) -> Callable[[Inspected], bool]:
    return host(key, [{"Path": "/dev/null", amount: expected}])


def network(made: Inspected) -> Inspected:
    (found,) = made["NetworkSettings"]["Networks"].values()
    return found  # type: ignore[no-any-return]


def mounted(made: Inspected) -> list[str]:
    return [mount["Destination"] for mount in made["Mounts"]] + list(made["HostConfig"].get("Tmpfs") or {})


STARTED: dict[str, Row] = {
    "--add-host": (["--add-host=db:10.0.0.9", "--add-host=db=::1"], host_has("ExtraHosts", "db:10.0.0.9", "db:::1")),
    "--cap-add": (["--cap-add=NET_RAW"], host_has("CapAdd", "NET_RAW", "CHOWN")),
    "--cap-drop": (["--cap-drop=KILL"], host_has("CapDrop", "KILL", "ALL")),
    "--cgroup-parent": (["--cgroup-parent=/hermes-flags"], host("CgroupParent", "/hermes-flags")),
    "--cgroupns": (["--cgroupns=private"], host("CgroupnsMode", "private")),
    "--cpu-shares": (["-c512"], host("CpuShares", 512)),
    "--cpus": (["--cpus=0.5"], host("NanoCpus", 500_000_000)),
    "--cpuset-cpus": (["--cpuset-cpus=0"], host("CpusetCpus", "0")),
    "--cpuset-mems": (["--cpuset-mems=0"], host("CpusetMems", "0")),
    "--device": (
        ["--device=/dev/null:/dev/nothing"],
        lambda made: made["HostConfig"]["Devices"][0]["PathInContainer"] == "/dev/nothing",
    ),
    "--device-cgroup-rule": (["--device-cgroup-rule=c 1:3 rwm"], host("DeviceCgroupRules", ["c 1:3 rwm"])),
    "--dns": (["--dns=10.0.0.8"], host("Dns", ["10.0.0.8"])),
    "--dns-option": (["--dns-opt=ndots:1"], host("DnsOptions", ["ndots:1"])),
    "--dns-search": (["--dns-search=example.org"], host("DnsSearch", ["example.org"])),
    "--domainname": (["--domainname=example.org"], config("Domainname", "example.org")),
    "--expose": (
        ["--expose=8001-8002/udp"],
        lambda made: "8002/udp" in made["Config"]["ExposedPorts"],
    ),
    "--group-add": (["--group-add=1234"], host("GroupAdd", ["1234"])),
    "--hostname": (["-h", "flagged"], config("Hostname", "flagged")),
    "--init": (["--init=false"], host("Init", False)),
    "--ipc": (["--ipc=private"], host("IpcMode", "private")),
    "--label": (["-l", "flag=label"], lambda made: made["Config"]["Labels"]["flag"] == "label"),
    "--label-file": (["--label-file=LABELS"], lambda made: made["Config"]["Labels"]["of"] == "a file"),
    "--log-driver": (["--log-driver=json-file"], lambda made: made["HostConfig"]["LogConfig"]["Type"] == "json-file"),
    "--log-opt": (
        ["--log-opt=max-size=1m"],
        lambda made: made["HostConfig"]["LogConfig"]["Config"] == {"max-size": "1m"},
    ),
    "--mac-address": (["--mac-address=92:d0:c6:0a:29:33"], config("MacAddress", "92:d0:c6:0a:29:33")),
    "--memory": (["-m", "200m"], host("Memory", 200 << 20)),
    "--memory-reservation": (["--memory-reservation=100m"], host("MemoryReservation", 100 << 20)),
    "--memory-swap": (["-m200m", "--memory-swap=300m"], host("MemorySwap", 300 << 20)),
    "--memory-swappiness": (["--memory-swappiness=10"], host("MemorySwappiness", 10)),
    "--mount": (
        [
            "--mount=type=bind,src=/usr/share,dst=/bound,readonly",
            "--mount=type=tmpfs,target=/in-memory,tmpfs-size=1m,tmpfs-mode=1777",
        ],
        lambda made: {"/bound", "/in-memory"} <= {*mounted(made)},
    ),
    "--network": (["--network=bridge"], host("NetworkMode", "bridge")),
    "--no-healthcheck": (["--no-healthcheck"], lambda made: made["Config"]["Healthcheck"]["Test"] == ["NONE"]),
    "--oom-kill-disable": (["--oom-kill-disable"], host("OomKillDisable", True)),
    "--oom-score-adj": (["--oom-score-adj=100"], host("OomScoreAdj", 100)),
    "--pid": (["--pid=host"], host("PidMode", "host")),
    "--pids-limit": (["--pids-limit=99"], host("PidsLimit", 99)),
    "--publish": (["-p127.0.0.1::8000"], lambda made: "8000/tcp" in made["HostConfig"]["PortBindings"]),
    "--publish-all": (["-P"], host("PublishAllPorts", True)),
    "--read-only": (["--read-only"], host("ReadonlyRootfs", True)),
    "--runtime": (["--runtime=runc"], host("Runtime", "runc")),
    "--security-opt": (["--security-opt=apparmor=unconfined"], host_has("SecurityOpt", "apparmor=unconfined")),
    "--shm-size": (["--shm-size=8m"], host("ShmSize", 8 << 20)),
    "--stop-signal": (["--stop-signal=SIGINT"], lambda made: made["Config"]["StopSignal"] in ("SIGINT", "2")),
    "--sysctl": (["--sysctl=net.ipv4.ip_forward=1"], host("Sysctls", {"net.ipv4.ip_forward": "1"})),
    "--tmpfs": (["--tmpfs=/scratch:size=1m"], lambda made: "size=1m" in made["HostConfig"]["Tmpfs"]["/scratch"]),
    "--ulimit": (
        ["--ulimit=nofile=1024:2048"],
        host("Ulimits", [{"Name": "nofile", "Soft": 1024, "Hard": 2048}]),
    ),
    "--user": (["-u", "1000"], config("User", "1000")),
    "--uts": (["--uts=host"], host("UTSMode", "host")),
    "--volume": (["-v", "/usr/share:/shared:ro"], lambda made: "/shared" in mounted(made)),
    "--workdir": (["-w", "/usr"], config("WorkingDir", "/usr")),
}
"""Flags of containers that start, each with a check of the description."""
APART = ("--uts", "--network", "--mac-address")
"""Flags of STARTED that exclude others: host names belong to the UTS namespace."""

CREATED: dict[str, Row] = {
    "--cpu-period": (["--cpu-period=50000"], host("CpuPeriod", 50_000)),
    "--cpu-quota": (["--cpu-quota=25000"], host("CpuQuota", 25_000)),
    "--cpu-rt-period": (["--cpu-rt-period=1000000"], host("CpuRealtimePeriod", 1_000_000)),
    "--cpu-rt-runtime": (["--cpu-rt-period=1000000", "--cpu-rt-runtime=9"], host("CpuRealtimeRuntime", 9)),
    "--device-read-bps": (["--device-read-bps=/dev/null:1mb"], of_device("BlkioDeviceReadBps", "Rate", 1 << 20)),
    "--device-read-iops": (["--device-read-iops=/dev/null:9"], of_device("BlkioDeviceReadIOps", "Rate", 9)),
    "--device-write-bps": (["--device-write-bps=/dev/null:1mb"], of_device("BlkioDeviceWriteBps", "Rate", 1 << 20)),
    "--device-write-iops": (["--device-write-iops=/dev/null:9"], of_device("BlkioDeviceWriteIOps", "Rate", 9)),
    "--gpus": (["--gpus=2"], lambda made: made["HostConfig"]["DeviceRequests"][0]["Count"] == 2),
    "--ip": (["--ip=172.17.0.99"], lambda made: network(made)["IPAMConfig"]["IPv4Address"] == "172.17.0.99"),
    "--ip6": (["--ip6=fd00::9"], lambda made: network(made)["IPAMConfig"]["IPv6Address"] == "fd00::9"),
    "--isolation": (["--isolation=default"], host("Isolation", "default")),
    "--link": (["--link=SOURCE:other"], lambda made: made["HostConfig"]["Links"][0].endswith("/other")),
    "--link-local-ip": (
        ["--link-local-ip=169.254.3.3"],
        lambda made: network(made)["IPAMConfig"]["LinkLocalIPs"] == ["169.254.3.3"],
    ),
    "--network-alias": (["--network-alias=other"], lambda made: "other" in network(made)["Aliases"]),
    "--privileged": (["--privileged"], host("Privileged", True)),
    "--userns": (["--userns=host"], host("UsernsMode", "host")),
    "--volume-driver": (["--volume-driver=local"], host("VolumeDriver", "local")),
    "--volumes-from": (["--volumes-from=SOURCE"], lambda made: made["HostConfig"]["VolumesFrom"] is not None),
}
"""Flags that keep a container from starting on some machines."""
TABLE = {**STARTED, **CREATED}

OF_PROCESSES = {"--env", "--env-file"}
"""Flags of each process and not of the container."""
NOT_HERE = {
    "--blkio-weight=100": "weight",
    "--blkio-weight-device=/dev/null:100": "weight",
    "--platform=linux/riscv64": "platform|manifest|image",
    "--storage-opt=size=1g": "size|quota|storage",
    "--runtime=nosuch": "nosuch",
}
"""Flags that this machine's engine refuses, with a pattern of the error. A container would start without the flag."""
UNSEEN_IN_PODMAN = {
    *("--cap-add", "--cap-drop", "--cgroupns", "--device", "--expose", "--init", "--ip", "--ip6", "--ipc"),
    *("--link-local-ip", "--log-opt", "--mac-address", "--memory-swap", "--runtime", "--sysctl", "--userns"),
    "--volumes-from",
}
"""Flags that Podman's description of a container lacks or has under another name."""


@pytest.fixture
def labels(tmp_path: Path) -> str:
    """Write a file of labels."""
    file = tmp_path / "labels"
    file.write_text("# two labels\nof=a file\n\nother=1\n")
    return str(file)


def _inspect(words: list[str], labels: str, source: str, **settings: object) -> Inspected:
    """Return the description of a container with flags. The container is removed."""
    given = [word.replace("SOURCE", source).replace("LABELS", labels) for word in words]
    loaded = load_settings("docker", image=PYTHON_IMAGE, extra_args=given, **settings)
    api = DockerEngine(None).client()
    container = create_container(api, loaded, container_options(loaded), PYTHON_IMAGE)
    try:
        return dict(api.inspect_container(container))
    finally:
        api.remove_container(container, force=True)
        api.close()


@pytest.fixture
def source(engine: docker.DockerClient) -> Iterator[str]:
    """Create a container for flags that name another container."""
    made = engine.api.create_container(PYTHON_IMAGE, ["true"])["Id"]
    yield made
    engine.api.remove_container(made, force=True)


def _holds(check: Callable[[Inspected], object], made: Inspected) -> bool:
    try:
        return bool(check(made))
    except (IndexError, KeyError, TypeError):
        return False


def flags_of_docker_run() -> set[str]:
    """Return the flags that this machine's `docker run` has."""
    done = subprocess.run(["docker", "run", "--help"], capture_output=True, text=True, check=True)
    return {found[1] for line in done.stdout.splitlines() if (found := re.match(r"\s+(?:-\w, )?(--[\w-]+)", line))}


def test_every_flag_is_in_one_of_the_tables() -> None:
    assert FLAGS.keys() == TABLE.keys() | OF_PROCESSES | {flag.partition("=")[0] for flag in NOT_HERE}
    assert not FLAGS.keys() & REFUSED.keys()


def test_each_flag_of_docker_run_is_accepted_or_refused_by_name() -> None:
    program = flags_of_docker_run()
    assert len(program) > 90
    for flag in program - FLAGS.keys():
        with pytest.raises(UnsupportedError, match=f"flag {flag} of extra_args"):
            container_options(load_settings("docker", extra_args=[f"{flag}=x"]))


@pytest.mark.parametrize("flag", TABLE)
def test_the_engine_applies_each_flag(flag: str, labels: str, source: str) -> None:
    words, check = TABLE[flag]
    made = _inspect(words, labels, source)
    assert _holds(check, made), json.dumps(made)


def test_podman_applies_each_flag_or_it_is_refused_by_name(monkeypatch: pytest.MonkeyPatch, labels: str) -> None:
    wrong = {}
    with podman_service() as service:
        monkeypatch.setenv("DOCKER_HOST", service.url)
        off = {} if service.holds_limits else dict.fromkeys(("container_cpu", "container_memory", "container_pids"), 0)
        for flag, (words, check) in TABLE.items():
            try:
                made = _inspect(words, labels, "nosuch", **off)
            except UnsupportedError as error:
                if not re.search(r"--[\w-]+ of extra_args", str(error)):
                    wrong[flag] = str(error)
            except docker.errors.APIError:  # Podman itself refuses the flag
                continue
            else:
                if flag not in UNSEEN_IN_PODMAN and not _holds(check, made):
                    wrong[flag] = json.dumps(made["HostConfig"])
    assert wrong == {}


def test_a_started_container_has_its_flags(engine: docker.DockerClient, nap: str, labels: str) -> None:
    words = [word for flag, (words, _) in STARTED.items() if flag not in APART for word in words]
    given = [word.replace("LABELS", labels) for word in words]
    label = f"flags={nap}"
    with create_environment("docker", image=PYTHON_IMAGE, extra_args=[*given, "-l", label]) as env:
        # The hard limit: runc may raise the soft one to it (opencontainers/runc#4195). HostConfig has both.
        assert env.execute("hostname; pwd; id -u; ulimit -Hn").output == "flagged\n/usr\n1000\n2048\n"
        (container,) = engine.containers.list(filters={"label": label})
        about = container.attrs
        assert [flag for flag, (_, check) in STARTED.items() if flag not in APART and not _holds(check, about)] == []


@pytest.mark.parametrize("flag", NOT_HERE)
def test_flags_that_the_engine_cannot_apply_are_errors(flag: str) -> None:
    with (
        create_environment("docker", image=PYTHON_IMAGE, extra_args=[flag]) as env,
        pytest.raises(TerminalError, match=f"(?i){NOT_HERE[flag]}"),
    ):
        env.execute("true")


def test_variables_of_a_file_reach_commands_and_not_the_container(tmp_path: Path, engine: docker.DockerClient) -> None:
    file = tmp_path / "variables"
    file.write_text("# variables\nFROM_FILE=s3cret=1\nHOME_HERE\n")
    with create_environment("docker", image=PYTHON_IMAGE, extra_args=[f"--env-file={file}", "-eOTHER=2"]) as env:
        assert env.execute("echo $FROM_FILE $OTHER").output == "s3cret=1 2\n"
        assert "s3cret" not in str(engine.containers.get(env.target.id).attrs)


def test_a_seccomp_profile_is_read_here_and_paths_of_the_system_can_be_shown(tmp_path: Path, labels: str) -> None:
    profile = tmp_path / "profile.json"
    profile.write_text('{\n "defaultAction": "SCMP_ACT_ALLOW"\n}')
    made = _inspect([f"--security-opt=seccomp={profile}", "--security-opt", "systempaths=unconfined"], labels, "")
    assert 'seccomp={"defaultAction": "SCMP_ACT_ALLOW"}' in made["HostConfig"]["SecurityOpt"]
    assert made["HostConfig"]["MaskedPaths"] == []
