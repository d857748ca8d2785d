"""`extra_args`: flags of `docker run`, passed to the engine or refused by name."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from docker.errors import DockerException
from docker.types import DeviceRequest, Mount, Ulimit
from docker.utils import convert_port_bindings, parse_bytes, parse_devices
from docker.utils.ports import build_port_bindings, split_port

from environments.docker.settings import DockerSettings
from environments.errors import SettingsError, UnsupportedError
from environments.validation import closest

if TYPE_CHECKING:
    from environments.docker.creation import ContainerOptions

Place = Literal["host", "config", "endpoint", "environment"]
"""The field of `ContainerOptions` for a flag's value."""


@dataclass(frozen=True, slots=True)
class Flag:
    """A flag, and its counterpart in a request to the engine."""

    keyword: str
    """The key in the field; keys above are joined with dots. Empty for the field itself."""
    convert: Callable[[str], object]
    """A converter of one value. Raises ValueError with the fault."""
    place: Place = "host"
    is_switch: bool = False
    """True if the value may be left out."""


def _truth(text: str) -> bool:
    if text.lower() not in ("true", "t", "1", "false", "f", "0"):
        raise ValueError("it is a switch")
    return text.lower() in ("true", "t", "1")


def _listed(text: str) -> list[str]:
    return [text]


def _pair(text: str) -> dict[str, str]:
    name, _, value = text.partition("=")
    return {name: value}


def _tmpfs(text: str) -> dict[str, str]:
    target, _, options = text.partition(":")
    return {target: options}


def _variable(text: str) -> dict[str, str]:
    """Read `NAME=value`; a lone `NAME` has the value of this process's variable."""
    name, equals, value = text.partition("=")
    return {name: value if equals else os.environ.get(name, "")}


def _of_file(read: Callable[[str], dict[str, str]]) -> Callable[[str], dict[str, str]]:
    """Return a converter of a local file's path; the file has one entry a line."""

    def convert(path: str) -> dict[str, str]:
        try:
            lines = Path(path).expanduser().read_text().splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"the file cannot be read: {error}") from None
        entries = (line.lstrip() for line in lines)
        return {name: value for entry in entries if entry and entry[0] != "#" for name, value in read(entry).items()}

    return convert


def _device(text: str) -> object:
    if not text.startswith("/"):
        raise ValueError("give the path of a device")
    return parse_devices([text])


def _of_device(amount: str, read: Callable[[str], object]) -> Callable[[str], object]:
    """Return a converter of `PATH:AMOUNT`."""

    def convert(text: str) -> list[dict[str, object]]:
        path, _, limit = text.rpartition(":")
        return [{"Path": path, amount: read(limit)}]

    return convert


def _link(text: str) -> list[str]:
    return [text if ":" in text else f"{text}:{text}"]


def _host(text: str) -> list[str]:
    if ":" not in text and "=" not in text:
        raise ValueError("give HOST:ADDRESS")
    return [text if ":" in text.partition("=")[0] else text.replace("=", ":", 1)]


def _network(text: str) -> str:
    if "=" in text or " " in text:
        raise ValueError("give the name of one network; --network-alias and --ip say more about it")
    return text


def _security(option: str) -> list[str]:
    """Put the contents of a seccomp profile in place of its path, as the docker program does."""
    kind, separator, path = option.partition("=") if "=" in option else option.partition(":")
    if kind != "seccomp" or path in ("unconfined", "builtin", "") or path.startswith("{"):
        return [option]
    try:
        return [f"{kind}{separator}{json.dumps(json.loads(Path(path).expanduser().read_text()))}"]
    except (OSError, ValueError) as error:
        raise ValueError(f"the seccomp profile cannot be read: {error}") from None


def _no_healthcheck(text: str) -> dict[str, list[str]] | None:
    return {"test": ["NONE"]} if _truth(text) else None


def _ulimit(text: str) -> list[Ulimit]:
    name, _, limits = text.partition("=")
    soft, _, hard = limits.partition(":")
    return [Ulimit(name=name, soft=int(soft), hard=int(hard or soft))]


_MOUNT_KEYS = {"src": "source", "dst": "target", "destination": "target", "ro": "readonly"}


def _mount(text: str) -> list[Mount]:
    """Read `type=bind,source=/a,target=/b,readonly`."""
    parts = (part.partition("=") for part in text.split(","))
    given = {_MOUNT_KEYS.get(key, key): value if equals else "true" for key, equals, value in parts}
    kind, target, source = given.pop("type", "volume"), given.pop("target", ""), given.pop("source", None)
    read_only, propagation = _truth(given.pop("readonly", "false")), given.pop("bind-propagation", None)
    size, mode = given.pop("tmpfs-size", None), given.pop("tmpfs-mode", None)
    if given:
        raise ValueError(f"{next(iter(given))} of a mount is not understood")
    if kind not in ("bind", "volume", "tmpfs") or not target.startswith("/"):
        raise ValueError("give type=bind, volume or tmpfs, and target=/PATH")
    if kind == "bind" and not (source or "").startswith("/"):
        raise ValueError("a bind mount needs source=/PATH, on the engine's machine")
    made = Mount(
        target,
        source,
        type=kind,  # type: ignore[arg-type]  # it is one of three
        read_only=read_only,
        propagation=propagation,
        tmpfs_size=size,
        tmpfs_mode=None if mode is None else int(mode, 8),
    )
    return [made]


def parse_gpus(text: str) -> list[DeviceRequest]:
    """Read `all`, a number of GPUs, or `device=ID,ID`.

    Raises:
        ValueError: The text has another form.
    """
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


def _published(text: str) -> object:
    return convert_port_bindings(build_port_bindings([text]))


def _ports(text: str) -> list[tuple[str, str]]:
    """Return ports of the container and their protocols, of `[[address:]port:]port[/protocol]`."""
    found = (port.partition("/") for port in split_port(text)[0])
    return [(port, protocol or "tcp") for port, _, protocol in found]


_SHORT = {
    "-a": "--attach", "-c": "--cpu-shares", "-d": "--detach", "-e": "--env", "-h": "--hostname", "-i": "--interactive",
    "-l": "--label", "-m": "--memory", "-p": "--publish", "-P": "--publish-all", "-q": "--quiet", "-t": "--tty",
    "-u": "--user", "-v": "--volume", "-w": "--workdir",
}  # fmt: skip
_ALIASES = {**_SHORT, "--net": "--network", "--net-alias": "--network-alias", "--dns-opt": "--dns-option"}

FLAGS = {
    "--add-host": Flag("ExtraHosts", _host),
    "--blkio-weight": Flag("BlkioWeight", int),
    "--blkio-weight-device": Flag("BlkioWeightDevice", _of_device("Weight", int)),
    "--cap-add": Flag("CapAdd", _listed),
    "--cap-drop": Flag("CapDrop", _listed),
    "--cgroup-parent": Flag("CgroupParent", str),
    "--cgroupns": Flag("CgroupnsMode", str),
    "--cpu-period": Flag("CpuPeriod", int),
    "--cpu-quota": Flag("CpuQuota", int),
    "--cpu-rt-period": Flag("CpuRealtimePeriod", int),
    "--cpu-rt-runtime": Flag("CpuRealtimeRuntime", int),
    "--cpu-shares": Flag("CpuShares", int),
    "--cpus": Flag("NanoCpus", lambda text: int(float(text) * 1e9)),
    "--cpuset-cpus": Flag("CpusetCpus", str),
    "--cpuset-mems": Flag("CpusetMems", str),
    "--device": Flag("Devices", _device),
    "--device-cgroup-rule": Flag("DeviceCgroupRules", _listed),
    "--device-read-bps": Flag("BlkioDeviceReadBps", _of_device("Rate", parse_bytes)),
    "--device-read-iops": Flag("BlkioDeviceReadIOps", _of_device("Rate", int)),
    "--device-write-bps": Flag("BlkioDeviceWriteBps", _of_device("Rate", parse_bytes)),
    "--device-write-iops": Flag("BlkioDeviceWriteIOps", _of_device("Rate", int)),
    "--dns": Flag("Dns", _listed),
    "--dns-option": Flag("DnsOptions", _listed),
    "--dns-search": Flag("DnsSearch", _listed),
    "--domainname": Flag("domainname", str, "config"),
    "--env": Flag("", _variable, "environment"),
    "--env-file": Flag("", _of_file(_variable), "environment"),
    "--expose": Flag("ports", _ports, "config"),
    "--gpus": Flag("DeviceRequests", parse_gpus),
    "--group-add": Flag("GroupAdd", _listed),
    "--hostname": Flag("hostname", str, "config"),
    "--init": Flag("Init", _truth, is_switch=True),
    "--ip": Flag("IPAMConfig.IPv4Address", str, "endpoint"),
    "--ip6": Flag("IPAMConfig.IPv6Address", str, "endpoint"),
    "--ipc": Flag("IpcMode", str),
    "--isolation": Flag("Isolation", str),
    "--label": Flag("labels", _pair, "config"),
    "--label-file": Flag("labels", _of_file(_pair), "config"),
    "--link": Flag("Links", _link),
    "--link-local-ip": Flag("IPAMConfig.LinkLocalIPs", _listed, "endpoint"),
    "--log-driver": Flag("LogConfig.Type", str),
    "--log-opt": Flag("LogConfig.Config", _pair),
    "--mac-address": Flag("mac_address", str, "config"),
    "--memory": Flag("Memory", parse_bytes),
    "--memory-reservation": Flag("MemoryReservation", parse_bytes),
    "--memory-swap": Flag("MemorySwap", parse_bytes),
    "--memory-swappiness": Flag("MemorySwappiness", int),
    "--mount": Flag("Mounts", _mount),
    "--network": Flag("NetworkMode", _network),
    "--network-alias": Flag("Aliases", _listed, "endpoint"),
    "--no-healthcheck": Flag("healthcheck", _no_healthcheck, "config", is_switch=True),
    "--oom-kill-disable": Flag("OomKillDisable", _truth, is_switch=True),
    "--oom-score-adj": Flag("OomScoreAdj", int),
    "--pid": Flag("PidMode", str),
    "--pids-limit": Flag("PidsLimit", int),
    "--platform": Flag("platform", str, "config"),
    "--privileged": Flag("Privileged", _truth, is_switch=True),
    "--publish": Flag("PortBindings", _published),
    "--publish-all": Flag("PublishAllPorts", _truth, is_switch=True),
    "--read-only": Flag("ReadonlyRootfs", _truth, is_switch=True),
    "--runtime": Flag("Runtime", str),
    "--security-opt": Flag("SecurityOpt", _security),
    "--shm-size": Flag("ShmSize", parse_bytes),
    "--stop-signal": Flag("stop_signal", str, "config"),
    "--storage-opt": Flag("StorageOpt", _pair),
    "--sysctl": Flag("Sysctls", _pair),
    "--tmpfs": Flag("Tmpfs", _tmpfs),
    "--ulimit": Flag("Ulimits", _ulimit),
    "--user": Flag("user", str, "config"),
    "--userns": Flag("UsernsMode", str),
    "--uts": Flag("UTSMode", str),
    "--volume": Flag("Binds", _listed),
    "--volume-driver": Flag("VolumeDriver", str),
    "--volumes-from": Flag("VolumesFrom", _listed),
    "--workdir": Flag("working_dir", str, "config"),
}  # fmt: skip
"""The supported flags. Lists and mappings extend those of the settings; other values replace them."""

REFUSED: Mapping[str, str] = {
    **dict.fromkeys(("--attach", "--interactive"), "streams are those of each command; leave it out"),
    **dict.fromkeys(
        ("--detach-keys", "--disable-content-trust", "--help", "--quiet", "--sig-proxy"),
        "it is for a person at a terminal; leave it out",
    ),
    **dict.fromkeys(
        (f"--health-{each}" for each in ("cmd", "interval", "retries", "start-interval", "start-period", "timeout")),
        "health is that of a service, and nothing asks for it here; leave it out",
    ),
    "--cidfile": "env.target.id is the id of the container",
    "--detach": "the container always runs in the background; leave it out",
    "--entrypoint": "the container runs a shell that waits; run the program by env.execute or env.start",
    "--kernel-memory": "engines have given it up; use --memory",
    "--name": "each container has a name of its own, as there may be several; env.target.name is that name",
    "--pull": "an image is pulled if the engine does not have it; `docker pull` gets a newer one",
    "--restart": "a container that has ended is replaced by the next command, which reports the loss",
    "--rm": "the container is removed in the end, unless container_persistent is set; leave it out",
    "--stop-timeout": "commands are ended before the container is; leave it out",
    "--tty": "env.start(pty=True) gives a command a terminal; leave it out",
    "--use-api-socket": "it gives the engine to the container; if that is meant, mount the socket with the setting "
    "volumes",
}
"""Refused flags of `docker run`: the reason and the replacement."""


def apply_flags(own: DockerSettings, options: ContainerOptions) -> None:
    """Add `extra_args` to a request.

    Args:
        own: The settings with the flags.
        options: The request to the engine; changed in place.

    Raises:
        SettingsError: A flag has a wrong value, or contradicts another setting.
        UnsupportedError: A flag is not among `FLAGS`.
    """
    given = list(parsed_flags(own))
    names = [name for name, _ in given]
    if "--network" in names:
        if own.network != "full":
            raise SettingsError("backend 'docker': extra_args has --network although network is not full; keep one")
        # Several names are refused by the converter.
        given.append(("--network", " ".join(value for name, value in given if name == "--network")))
    given += [("--expose", value) for name, value in given if name == "--publish"]
    for name, value in given:
        flag = FLAGS[name]
        try:
            converted = flag.convert(value)
        except (ValueError, DockerException) as error:
            raise SettingsError(f"backend 'docker': extra_args: {name} has a wrong value: {error}") from None
        for key in reversed(flag.keyword.split(".") if flag.keyword else ()):
            converted = {key: converted}
        setattr(options, flag.place, _merged(getattr(options, flag.place), converted))
    if "--memory" in names and "--memory-swap" not in names:
        options.host["MemorySwap"] = options.host["Memory"]
    if "mac_address" in options.config:  # engines since version 25 have the address on the network
        options.endpoint["MacAddress"] = options.config["mac_address"]
    security = options.host["SecurityOpt"]
    if unmasked := [each for each in security if each in ("systempaths=unconfined", "systempaths:unconfined")]:
        options.host["SecurityOpt"] = [each for each in security if each not in unmasked]
        options.host |= {"MaskedPaths": [], "ReadonlyPaths": []}


def _merged(old: object, new: object) -> object:
    if isinstance(old, list) and isinstance(new, list):
        return [*old, *(item for item in new if item not in old)]
    if isinstance(old, dict) and isinstance(new, dict):
        return {**old, **{key: _merged(old.get(key), value) for key, value in new.items()}}
    return new


def parsed_flags(own: DockerSettings) -> Iterator[tuple[str, str]]:
    """Split `extra_args` into flags and values.

    The forms are `--flag=value` and `--flag value`. Errors leave out the values, which may be secret.

    Raises:
        SettingsError: A flag has no value, or a value no flag.
        UnsupportedError: A flag is not among `FLAGS`.
    """
    rest = iter(own.extra_args)
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
        if why := REFUSED.get(name):
            raise UnsupportedError(f"backend 'docker' does not take the flag {written} of extra_args: {why}")
        if name not in FLAGS:
            raise UnsupportedError(
                f"backend 'docker' does not have the flag {written} of extra_args{closest(name, FLAGS)}; it has: "
                f"{', '.join(FLAGS)}"
            )
        if not equals:
            value = "true" if FLAGS[name].is_switch else next(rest, "")
        if not value:
            raise SettingsError(f"backend 'docker': extra_args: {written} needs a value")
        yield name, value
