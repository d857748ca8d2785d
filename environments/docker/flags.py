"""`docker_extra_args`: flags of `docker run`, which the engine's API knows under other names."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from docker.types import DeviceRequest, Ulimit
from docker.utils import parse_devices
from docker.utils.ports import build_port_bindings, split_port

from environments.docker.settings import DockerSettings, check_volume
from environments.errors import SettingsError, UnsupportedError

Place = Literal["host", "config", "environment"]


@dataclass(frozen=True, slots=True)
class Flag:
    """What a flag is for the API. All its values come at once, as most may be given several times."""

    keyword: str
    convert: Callable[[Sequence[str]], object]
    place: Place = "host"


def _last(values: Sequence[str]) -> str:
    return values[-1]


def _number(values: Sequence[str]) -> int:
    return int(values[-1])


def _truth(values: Sequence[str]) -> bool:
    if values[-1] not in ("true", "false"):
        raise ValueError("it is a switch")
    return values[-1] == "true"


def _pairs(separator: str) -> Callable[[Sequence[str]], dict[str, str]]:
    def convert(values: Sequence[str]) -> dict[str, str]:
        return {name: value for name, _, value in (text.partition(separator) for text in values)}

    return convert


def _ulimit(text: str) -> Ulimit:
    name, _, limits = text.partition("=")
    soft, _, hard = limits.partition(":")
    return Ulimit(name=name, soft=int(soft), hard=int(hard or soft))


def _variables(texts: Sequence[str]) -> dict[str, str]:
    """Read `NAME=value`; a `NAME` alone has the value it has here."""
    pairs = (text.partition("=") for text in texts)
    return {name: value if equals else os.environ.get(name, "") for name, equals, value in pairs}


def _volumes(values: Sequence[str]) -> list[str]:
    for volume in values:
        check_volume("--volume of docker_extra_args", volume)
    return list(values)


def parse_gpus(values: Sequence[str]) -> list[DeviceRequest]:
    """Read `all`, a number of GPUs, or `device=ID,ID`.

    Raises:
        SettingsError: It is something else.
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
        raise SettingsError(f"docker_gpus: {text!r} should be all, a number of GPUs, or device=ID,ID")
    return [DeviceRequest(count=count, device_ids=devices, capabilities=[["gpu"]])]


_SWITCHES = ("--init", "--privileged", "--read-only")
_SHORT = {"-h": "--hostname", "-l": "--label", "-m": "--memory", "-p": "--publish", "-u": "--user", "-v": "--volume"}
_SHORT |= {"-w": "--workdir", "-e": "--env", "--net": "--network"}

FLAGS = {
    "--add-host": Flag("extra_hosts", _pairs(":")),
    "--cap-add": Flag("cap_add", list),
    "--cap-drop": Flag("cap_drop", list),
    "--cgroup-parent": Flag("cgroup_parent", _last),
    "--cpu-shares": Flag("cpu_shares", _number),
    "--cpus": Flag("nano_cpus", lambda values: int(float(values[-1]) * 1e9)),
    "--cpuset-cpus": Flag("cpuset_cpus", _last),
    "--device": Flag("devices", lambda values: parse_devices(list(values))),
    "--dns": Flag("dns", list),
    "--dns-search": Flag("dns_search", list),
    "--env": Flag("", _variables, "environment"),
    "--gpus": Flag("device_requests", parse_gpus),
    "--group-add": Flag("group_add", list),
    "--hostname": Flag("hostname", _last, "config"),
    "--init": Flag("init", _truth),
    "--ipc": Flag("ipc_mode", _last),
    "--label": Flag("labels", _pairs("="), "config"),
    "--memory": Flag("mem_limit", _last),
    "--memory-swap": Flag("memswap_limit", _last),
    "--network": Flag("network_mode", _last),
    "--pid": Flag("pid_mode", _last),
    "--pids-limit": Flag("pids_limit", _number),
    "--platform": Flag("platform", _last, "config"),
    "--privileged": Flag("privileged", _truth),
    "--publish": Flag("port_bindings", lambda values: build_port_bindings(list(values))),
    "--read-only": Flag("read_only", _truth),
    "--runtime": Flag("runtime", _last),
    "--security-opt": Flag("security_opt", list),
    "--shm-size": Flag("shm_size", _last),
    "--storage-opt": Flag("storage_opt", _pairs("=")),
    "--sysctl": Flag("sysctls", _pairs("=")),
    "--tmpfs": Flag("tmpfs", _pairs(":")),
    "--ulimit": Flag("ulimits", lambda values: [_ulimit(text) for text in values]),
    "--user": Flag("user", _last, "config"),
    "--userns": Flag("userns_mode", _last),
    "--volume": Flag("volumes", _volumes),
    "--volumes-from": Flag("volumes_from", list),
    "--workdir": Flag("working_dir", _last, "config"),
}
"""The flags that are understood. Lists and mappings add to what the settings ask for, other values replace it."""


def apply_flags(
    own: DockerSettings,
    host: dict[str, object],
    config: dict[str, object],
    environment: dict[str, str],
) -> None:
    """Add what `docker_extra_args` asks for.

    Args:
        own: Where the flags are.
        host: Keyword arguments of docker-py's `create_host_config`, which are changed.
        config: Those of `create_container`, which are changed.
        environment: Variables, which are changed.

    Raises:
        SettingsError: A flag has a wrong value, or says what another setting forbids.
        UnsupportedError: A flag is not among `FLAGS`.
    """
    given = _parse(own.extra_args)
    if "--network" in given and own.network != "full":
        raise SettingsError("docker_extra_args has --network although docker_network is not full; keep one")
    if "--memory" in given and "--memory-swap" not in given:
        given["--memory-swap"] = given["--memory"]
    for name, values in given.items():
        flag = FLAGS[name]
        try:
            value = flag.convert(values)
        except ValueError as error:
            raise SettingsError(f"docker_extra_args: {name} has a wrong value: {error}") from None
        if flag.place == "environment":
            assert isinstance(value, dict)
            environment.update(value)
        else:
            target = host if flag.place == "host" else config
            target[flag.keyword] = _joined(target.get(flag.keyword), value)
    if "--publish" in given:
        config["ports"] = [port for text in given["--publish"] for port in _container_ports(text)]


def _joined(old: object, new: object) -> object:
    if isinstance(old, list) and isinstance(new, list):
        return [*old, *(item for item in new if item not in old)]
    if isinstance(old, dict) and isinstance(new, dict):
        return {**old, **new}
    return new


def _container_ports(text: str) -> list[tuple[str, str]]:
    return [(port, protocol or "tcp") for port, _, protocol in (p.partition("/") for p in split_port(text)[0])]


def _parse(arguments: Sequence[str]) -> dict[str, list[str]]:
    """Take flags apart, written `--flag=value` or `--flag value`. Values are left out of errors: they may be secret."""
    given: dict[str, list[str]] = {}
    rest = iter(arguments)
    for argument in rest:
        written, equals, value = argument.partition("=")
        name = _SHORT.get(written, written)
        if name not in FLAGS:
            raise UnsupportedError(
                f"backend 'docker' does not have the flag {written} of docker_extra_args; it has: {', '.join(FLAGS)}"
            )
        if not equals:
            value = "true" if name in _SWITCHES else next(rest, "")
        if not value:
            raise SettingsError(f"docker_extra_args: {written} needs a value")
        given.setdefault(name, []).append(value)
    return given
