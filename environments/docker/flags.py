"""`extra_args`: flags of `docker run`, each of which reaches the engine or is refused by its name."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from docker.errors import DockerException
from docker.types import DeviceRequest, Mount, Ulimit
from docker.utils import parse_bytes, parse_devices
from docker.utils.ports import build_port_bindings, split_port

from environments.docker.settings import DockerSettings, check_volume
from environments.errors import SettingsError, UnsupportedError
from environments.validation import closest

if TYPE_CHECKING:
    from environments.docker.creation import ContainerOptions

Place = Literal["host", "api", "config", "endpoint", "environment"]
"""The field of `ContainerOptions` for a flag's value."""


@dataclass(frozen=True, slots=True)
class Flag:
    """A flag, and what stands for it in a request to the engine."""

    keyword: str
    convert: Callable[[Sequence[str]], object]
    """Receives all values at once, as most flags may be given several times."""
    place: Place = "host"
    is_switch: bool = False
    """True if it needs no value."""


# What values are. ValueError says what is wrong about one.


def _last(values: Sequence[str]) -> str:
    return values[-1]


def _number(values: Sequence[str]) -> int:
    return int(values[-1])


def _truth(values: Sequence[str]) -> bool:
    if values[-1].lower() not in ("true", "t", "1", "false", "f", "0"):
        raise ValueError("it is a switch")
    return values[-1].lower() in ("true", "t", "1")


def _size(values: Sequence[str]) -> str:
    parse_bytes(values[-1])
    return values[-1]


def _bytes(values: Sequence[str]) -> int:
    return int(parse_bytes(values[-1]))


def _pairs(separator: str) -> Callable[[Sequence[str]], dict[str, str]]:
    def convert(values: Sequence[str]) -> dict[str, str]:
        return {name: value for name, _, value in (text.partition(separator) for text in values)}

    return convert


def _lines(path: str) -> list[str]:
    """Return the lines of a file here, without comments."""
    try:
        lines = Path(path).expanduser().read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"the file cannot be read: {error}") from None
    return [line.lstrip() for line in lines if line.strip() and not line.lstrip().startswith("#")]


def _variables(texts: Sequence[str]) -> dict[str, str]:
    """Read `NAME=value`; a `NAME` alone has the value it has here."""
    pairs = (text.partition("=") for text in texts)
    return {name: value if equals else os.environ.get(name, "") for name, equals, value in pairs}


def _of_files(read: Callable[[Sequence[str]], dict[str, str]]) -> Callable[[Sequence[str]], dict[str, str]]:
    return lambda paths: read([line for path in paths for line in _lines(path)])


def _devices(values: Sequence[str]) -> object:
    if not all(value.startswith("/") for value in values):
        raise ValueError("give the path of a device")
    return parse_devices(list(values))


def _of_devices(amount: str, read: Callable[[Sequence[str]], int]) -> Callable[[Sequence[str]], object]:
    """Return a converter of `PATH:AMOUNT`."""

    def convert(values: Sequence[str]) -> list[dict[str, object]]:
        return [{"Path": path, amount: read([text])} for path, _, text in (value.rpartition(":") for value in values)]

    return convert


def _links(values: Sequence[str]) -> list[str]:
    return [value if ":" in value else f"{value}:{value}" for value in values]


def _hosts(values: Sequence[str]) -> list[str]:
    if not all(":" in value or "=" in value for value in values):
        raise ValueError("give HOST:ADDRESS")
    return [value if ":" in value.partition("=")[0] else value.replace("=", ":", 1) for value in values]


def _network(values: Sequence[str]) -> str:
    if len(values) > 1 or "=" in values[-1]:
        raise ValueError("give the name of one network; --network-alias and --ip say more about it")
    return values[-1]


def _security(values: Sequence[str]) -> list[str]:
    """Put the contents of a seccomp profile in place of its path, as the docker program does."""
    return [_with_profile(value) for value in values]


def _with_profile(option: str) -> str:
    kind, separator, path = option.partition("=") if "=" in option else option.partition(":")
    if kind != "seccomp" or path in ("unconfined", "builtin", "") or path.startswith("{"):
        return option
    try:
        return f"{kind}{separator}{json.dumps(json.loads(Path(path).expanduser().read_text()))}"
    except (OSError, ValueError) as error:
        raise ValueError(f"the seccomp profile cannot be read: {error}") from None


def _no_healthcheck(values: Sequence[str]) -> dict[str, list[str]] | None:
    return {"test": ["NONE"]} if _truth(values) else None


def _ulimit(text: str) -> Ulimit:
    name, _, limits = text.partition("=")
    soft, _, hard = limits.partition(":")
    return Ulimit(name=name, soft=int(soft), hard=int(hard or soft))


def _volumes(values: Sequence[str]) -> list[str]:
    for volume in values:
        check_volume("backend 'docker': --volume of extra_args", volume)
    return list(values)


_MOUNT_KEYS = {"src": "source", "dst": "target", "destination": "target", "ro": "readonly"}


def _mount(text: str) -> Mount:
    """Read `type=bind,source=/a,target=/b,readonly`."""
    parts = (part.partition("=") for part in text.split(","))
    given = {_MOUNT_KEYS.get(key, key): value if equals else "true" for key, equals, value in parts}
    kind, target, source = given.pop("type", "volume"), given.pop("target", ""), given.pop("source", None)
    read_only, propagation = _truth([given.pop("readonly", "false")]), given.pop("bind-propagation", None)
    size, mode = given.pop("tmpfs-size", None), given.pop("tmpfs-mode", None)
    if given:
        raise ValueError(f"{next(iter(given))} of a mount is not understood")
    if kind not in ("bind", "volume", "tmpfs") or not target.startswith("/"):
        raise ValueError("give type=bind, volume or tmpfs, and target=/PATH")
    if kind == "bind" and not (source or "").startswith("/"):
        raise ValueError("a bind mount needs source=/PATH, on the engine's machine")
    return Mount(
        target,
        source,
        type=kind,  # type: ignore[arg-type]  # it is one of three
        read_only=read_only,
        propagation=propagation,
        tmpfs_size=size,
        tmpfs_mode=None if mode is None else int(mode, 8),
    )


def parse_gpus(values: Sequence[str]) -> list[DeviceRequest]:
    """Read `all`, a number of GPUs, or `device=ID,ID`.

    Raises:
        ValueError: It is something else.
    """
    text = values[-1]
    count = 0
    devices: list[str] = []
    if text == "all":
        count = -1
    elif text.isdigit() and int(text) > 0:
        count = int(text)
    elif text.startswith("device=") and text != "device=":
        devices = text.removeprefix("device=").split(",")
    else:
        raise ValueError(f"{text!r} should be all, a number of GPUs, or device=ID,ID")
    return [DeviceRequest(count=count, device_ids=devices, capabilities=[["gpu"]])]


def _ports(texts: Sequence[str]) -> list[tuple[str, str]]:
    """Return ports of the container and their protocols, of `[[address:]port:]port[/protocol]`."""
    found = (port.partition("/") for text in texts for port in split_port(text)[0])
    return [(port, protocol or "tcp") for port, _, protocol in found]


_SHORT = {
    "-a": "--attach", "-c": "--cpu-shares", "-d": "--detach", "-e": "--env", "-h": "--hostname", "-i": "--interactive",
    "-l": "--label", "-m": "--memory", "-p": "--publish", "-P": "--publish-all", "-q": "--quiet", "-t": "--tty",
    "-u": "--user", "-v": "--volume", "-w": "--workdir",
}  # fmt: skip
_ALIASES = {**_SHORT, "--net": "--network", "--net-alias": "--network-alias", "--dns-opt": "--dns-option"}

FLAGS = {
    "--add-host": Flag("extra_hosts", _hosts),
    "--blkio-weight": Flag("BlkioWeight", _number, "api"),
    "--blkio-weight-device": Flag("BlkioWeightDevice", _of_devices("Weight", _number), "api"),
    "--cap-add": Flag("cap_add", list),
    "--cap-drop": Flag("cap_drop", list),
    "--cgroup-parent": Flag("cgroup_parent", _last),
    "--cgroupns": Flag("CgroupnsMode", _last, "api"),
    "--cpu-period": Flag("CpuPeriod", _number, "api"),
    "--cpu-quota": Flag("CpuQuota", _number, "api"),
    "--cpu-rt-period": Flag("CpuRealtimePeriod", _number, "api"),
    "--cpu-rt-runtime": Flag("CpuRealtimeRuntime", _number, "api"),
    "--cpu-shares": Flag("cpu_shares", _number),
    "--cpus": Flag("nano_cpus", lambda values: int(float(values[-1]) * 1e9)),
    "--cpuset-cpus": Flag("cpuset_cpus", _last),
    "--cpuset-mems": Flag("CpusetMems", _last, "api"),
    "--device": Flag("devices", _devices),
    "--device-cgroup-rule": Flag("DeviceCgroupRules", list, "api"),
    "--device-read-bps": Flag("BlkioDeviceReadBps", _of_devices("Rate", _bytes), "api"),
    "--device-read-iops": Flag("BlkioDeviceReadIOps", _of_devices("Rate", _number), "api"),
    "--device-write-bps": Flag("BlkioDeviceWriteBps", _of_devices("Rate", _bytes), "api"),
    "--device-write-iops": Flag("BlkioDeviceWriteIOps", _of_devices("Rate", _number), "api"),
    "--dns": Flag("dns", list),
    "--dns-option": Flag("DnsOptions", list, "api"),
    "--dns-search": Flag("dns_search", list),
    "--domainname": Flag("domainname", _last, "config"),
    "--env": Flag("", _variables, "environment"),
    "--env-file": Flag("", _of_files(_variables), "environment"),
    "--expose": Flag("ports", _ports, "config"),
    "--gpus": Flag("device_requests", parse_gpus),
    "--group-add": Flag("group_add", list),
    "--hostname": Flag("hostname", _last, "config"),
    "--init": Flag("init", _truth, is_switch=True),
    "--ip": Flag("IPv4Address", _last, "endpoint"),
    "--ip6": Flag("IPv6Address", _last, "endpoint"),
    "--ipc": Flag("ipc_mode", _last),
    "--isolation": Flag("Isolation", _last, "api"),
    "--label": Flag("labels", _pairs("="), "config"),
    "--label-file": Flag("labels", _of_files(_pairs("=")), "config"),
    "--link": Flag("Links", _links, "api"),
    "--link-local-ip": Flag("LinkLocalIPs", list, "endpoint"),
    "--log-driver": Flag("Type", _last, "api"),
    "--log-opt": Flag("Config", _pairs("="), "api"),
    "--mac-address": Flag("mac_address", _last, "config"),
    "--memory": Flag("mem_limit", _size),
    "--memory-reservation": Flag("MemoryReservation", _bytes, "api"),
    "--memory-swap": Flag("memswap_limit", _size),
    "--memory-swappiness": Flag("MemorySwappiness", _number, "api"),
    "--mount": Flag("mounts", lambda values: [_mount(text) for text in values]),
    "--network": Flag("network_mode", _network),
    "--network-alias": Flag("Aliases", list, "endpoint"),
    "--no-healthcheck": Flag("healthcheck", _no_healthcheck, "config", is_switch=True),
    "--oom-kill-disable": Flag("OomKillDisable", _truth, "api", is_switch=True),
    "--oom-score-adj": Flag("OomScoreAdj", _number, "api"),
    "--pid": Flag("pid_mode", _last),
    "--pids-limit": Flag("pids_limit", _number),
    "--platform": Flag("platform", _last, "config"),
    "--privileged": Flag("privileged", _truth, is_switch=True),
    "--publish": Flag("port_bindings", lambda values: build_port_bindings(list(values))),
    "--publish-all": Flag("PublishAllPorts", _truth, "api", is_switch=True),
    "--read-only": Flag("read_only", _truth, is_switch=True),
    "--runtime": Flag("runtime", _last),
    "--security-opt": Flag("security_opt", _security),
    "--shm-size": Flag("shm_size", _size),
    "--stop-signal": Flag("stop_signal", _last, "config"),
    "--storage-opt": Flag("storage_opt", _pairs("=")),
    "--sysctl": Flag("sysctls", _pairs("=")),
    "--tmpfs": Flag("tmpfs", _pairs(":")),
    "--ulimit": Flag("ulimits", lambda values: [_ulimit(text) for text in values]),
    "--user": Flag("user", _last, "config"),
    "--userns": Flag("UsernsMode", _last, "api"),
    "--uts": Flag("UTSMode", _last, "api"),
    "--volume": Flag("volumes", _volumes),
    "--volume-driver": Flag("VolumeDriver", _last, "api"),
    "--volumes-from": Flag("volumes_from", list),
    "--workdir": Flag("working_dir", _last, "config"),
}  # fmt: skip
"""The flags that reach the engine. Lists and mappings add to what the settings ask for, other values replace it."""

_SHOWN_AS = {
    "--cpus": "NanoCpus",
    "--memory": "Memory",
    "--pids-limit": "PidsLimit",
    "--cpu-shares": "CpuShares",
    "--cpuset-cpus": "CpusetCpus",
    "--domainname": "Domainname",
    "--gpus": "DeviceRequests",
    "--ulimit": "Ulimits",
}
_OF_A_PERSON = "it is for a person at a terminal; leave it out"
_OF_COMMANDS = "streams are those of each command; leave it out"
_OF_SERVICES = "health is that of a service, and nothing asks for it here; leave it out"
REFUSED: Mapping[str, str] = {
    "--attach": _OF_COMMANDS,
    "--cidfile": "env.target.id is the id of the container",
    "--detach": "the container always runs in the background; leave it out",
    "--detach-keys": _OF_A_PERSON,
    "--disable-content-trust": _OF_A_PERSON,
    "--entrypoint": "the container runs a shell that waits; run the program by env.execute or env.start",
    "--health-cmd": _OF_SERVICES,
    "--health-interval": _OF_SERVICES,
    "--health-retries": _OF_SERVICES,
    "--health-start-interval": _OF_SERVICES,
    "--health-start-period": _OF_SERVICES,
    "--health-timeout": _OF_SERVICES,
    "--help": _OF_A_PERSON,
    "--interactive": _OF_COMMANDS,
    "--kernel-memory": "engines have given it up; use --memory",
    "--name": "each container has a name of its own, as there may be several; env.target.name is that name",
    "--pull": "an image is pulled if the engine does not have it; `docker pull` gets a newer one",
    "--quiet": _OF_A_PERSON,
    "--restart": "a container that has ended is replaced by the next command, which reports the loss",
    "--rm": "the container is removed in the end, unless container_persistent is set; leave it out",
    "--sig-proxy": _OF_A_PERSON,
    "--stop-timeout": "commands are ended before the container is; leave it out",
    "--tty": "env.start(pty=True) gives a command a terminal; leave it out",
    "--use-api-socket": "it gives the engine to the container; if that is meant, mount the socket with the setting "
    "volumes",
}
"""Why a flag of `docker run` is not taken, and what stands in its place."""


def apply_flags(own: DockerSettings, options: ContainerOptions) -> None:
    """Add what `extra_args` asks for.

    Args:
        own: Where the flags are.
        options: What the engine is asked for, which is changed.

    Raises:
        SettingsError: A flag has a wrong value, or says what another setting forbids.
        UnsupportedError: A flag is not among `FLAGS`.
    """
    given: dict[str, list[str]] = {}
    for name, value in _parsed(own.extra_args):
        given.setdefault(name, []).append(value)
    if "--network" in given and own.network != "full":
        raise SettingsError("backend 'docker': extra_args has --network although network is not full; keep one")
    if "--memory" in given and "--memory-swap" not in given:
        given["--memory-swap"] = given["--memory"]
    for name, values in given.items():
        flag = FLAGS[name]
        try:
            converted = flag.convert(values)
        except (ValueError, DockerException) as error:
            raise SettingsError(f"backend 'docker': extra_args: {name} has a wrong value: {error}") from None
        if flag.place == "environment":
            assert isinstance(converted, dict)
            options.environment.update(converted)
        else:
            place: dict[str, object] = getattr(options, flag.place)
            place[flag.keyword] = _joined(place.get(flag.keyword), converted)
    if "--publish" in given:
        options.config["ports"] = _joined(options.config.get("ports"), _ports(given["--publish"]))
    _group(options)


def flags_of(own: DockerSettings) -> Iterator[tuple[str, str]]:
    """Return the flags that are given, each with the engine's name for it in the description of a container."""
    for name, _ in _parsed(own.extra_args):
        yield name, _SHOWN_AS.get(name, FLAGS[name].keyword)


def _group(options: ContainerOptions) -> None:
    """Put together what the engine wants in one place and flags say one by one."""
    api, endpoint = options.api, options.endpoint
    if log := {key: api.pop(key) for key in ("Type", "Config") if key in api}:
        api["LogConfig"] = {"Type": "", "Config": {}, **log}
    if "mac_address" in options.config:  # engines since version 25 have it with the network
        endpoint["MacAddress"] = options.config["mac_address"]
    if addresses := {
        key: endpoint.pop(key) for key in ("IPv4Address", "IPv6Address", "LinkLocalIPs") if key in endpoint
    }:
        endpoint["IPAMConfig"] = addresses
    security = options.host["security_opt"]
    assert isinstance(security, list)
    if unmasked := [each for each in security if each in ("systempaths=unconfined", "systempaths:unconfined")]:
        security[:] = [each for each in security if each not in unmasked]
        api |= {"MaskedPaths": [], "ReadonlyPaths": []}


def _joined(old: object, new: object) -> object:
    if isinstance(old, list) and isinstance(new, list):
        return [*old, *(item for item in new if item not in old)]
    if isinstance(old, dict) and isinstance(new, dict):
        return {**old, **new}
    return new


def _parsed(arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Take flags apart, written `--flag=value` or `--flag value`. Values are left out of errors: they may be secret."""
    rest = iter(arguments)
    for place, argument in enumerate(rest):
        if argument[:1] == "-" != argument[1:2]:
            written, equals, value = argument[:2], argument[2:], argument[2:].removeprefix("=")
        else:
            written, equals, value = argument.partition("=")
        name = _ALIASES.get(written, written)
        if not name.startswith("-") or " " in name:
            raise SettingsError(
                f"backend 'docker': extra_args: item {place + 1} is no flag; write --flag=value, or flag and value as "
                "two items"
            )
        _check_known(written, name)
        if not equals:
            value = "true" if FLAGS[name].is_switch else next(rest, "")
        if not value:
            raise SettingsError(f"backend 'docker': extra_args: {written} needs a value")
        yield name, value


def _check_known(written: str, name: str) -> None:
    """Raise UnsupportedError for a flag that is not taken."""
    if name in FLAGS:
        return
    if why := REFUSED.get(name):
        raise UnsupportedError(f"backend 'docker' does not take the flag {written} of extra_args: {why}")
    raise UnsupportedError(
        f"backend 'docker' does not have the flag {written} of extra_args{closest(name, FLAGS)}; it has: "
        f"{', '.join(FLAGS)}"
    )
