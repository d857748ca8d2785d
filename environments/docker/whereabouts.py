"""Where a container is, how a person gets into it, and where its ports can be reached."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from environments.docker.address import UNIX
from environments.docker.engine import Engine
from environments.errors import UnsupportedError
from environments.target import Address, Target, this_machine

if TYPE_CHECKING:
    from docker import APIClient

USUAL_ENGINE = f"{UNIX}/var/run/docker.sock"
_ANYWHERE = ("", "0.0.0.0", "::")  # noqa: S104 - what the engine says of a port that it has published
_SHARED = "container:"
"""What the network of a container is called that has that of another one."""


def container_target(engine: Engine, about: Mapping[str, Any], shell: str, cwd: str, user: str) -> Target:
    """Describe a container.

    Args:
        engine: Whose it is.
        about: What the engine knows of it.
        shell: The shell to enter it with.
        cwd: The directory to begin in.
        user: The user to be there, where that is not the container's own.
    """
    who = ("--user", user) if user else ()
    entering = ("exec", "-it", *who, "--workdir", cwd, str(about["Id"]), shell)
    if engine.host:
        enter = engine.host.way_in(("docker", *entering))
    else:
        program, option = ("podman", "--url") if _has_podman_alone() else ("docker", "--host")
        enter = (program, *(() if engine.address == USUAL_ENGINE else (option, engine.address)), *entering)
    return Target("docker", "container", str(about["Id"]), str(about["Name"]).lstrip("/"), _host_of(engine), enter)


def _has_podman_alone() -> bool:
    return shutil.which("docker") is None and shutil.which("podman") is not None


def _host_of(engine: Engine) -> str:
    return this_machine() if engine.address.startswith(UNIX) else urlsplit(engine.address).hostname or ""


def container_address(engine: Engine, api: APIClient, container: str, port: int) -> Address:
    """Return where a port of a container can be reached from here.

    Args:
        engine: Whose it is.
        api: The engine's client.
        container: The container.
        port: The port, as programs in it know it.

    Raises:
        UnsupportedError: Nowhere.
    """
    about = api.inspect_container(container)
    mode = str(about["HostConfig"].get("NetworkMode") or "")
    if mode.startswith(_SHARED):
        return container_address(engine, api, mode.removeprefix(_SHARED), port)
    short = str(about["Id"])[:12]
    if mode == "none":
        raise UnsupportedError(
            f"backend 'docker': container {short} has no network, so that no port of it can be reached; have it get "
            "one, such as by docker_network"
        )
    if mode == "host":
        return _on_engines_machine(engine, "", port)
    own = _own_address(about)
    if own and _is_on_its_networks(engine, api):
        return engine.host.forwarded(own, port) if engine.host else Address(own, port)
    for published in (about["NetworkSettings"].get("Ports") or {}).get(f"{port}/tcp") or ():
        return _on_engines_machine(engine, str(published.get("HostIp") or ""), int(published["HostPort"]))
    raise UnsupportedError(
        f"backend 'docker': port {port} of container {short} cannot be reached from here, which is not on the networks "
        f"of the engine at {engine.address}; have it published, such as by docker_extra_args "
        f'["--publish={port}"]'
    )


def _on_engines_machine(engine: Engine, host: str, port: int) -> Address:
    """Return where a port of the machine that the engine is on can be reached.

    Args:
        engine: The engine.
        host: The one of its addresses that the port is on; empty if it is on all.
        port: The port.
    """
    is_anywhere = host in _ANYWHERE
    if engine.host:
        return engine.host.forwarded("localhost" if is_anywhere else host, port)
    if engine.address.startswith(UNIX):
        return Address("127.0.0.1" if is_anywhere else host, port)
    return Address(_host_of(engine) if is_anywhere else host, port)


def _is_on_its_networks(engine: Engine, api: APIClient) -> bool:
    """Whether this machine, or that which the engine is reached over, is on the networks of its containers.

    It is not where the engine is in a virtual machine, or is a user's own, whose networks are in a namespace.
    """
    if engine.host is None and not (engine.address.startswith(UNIX) and sys.platform == "linux"):
        return False
    rootless = any("rootless" in str(option) for option in api.info().get("SecurityOptions") or ())
    return not rootless or (engine.host is None and os.geteuid() == 0)


def _own_address(about: Mapping[str, Any]) -> str | None:
    networks = (about["NetworkSettings"].get("Networks") or {}).values()
    addresses = [network.get(key) for key in ("IPAddress", "GlobalIPv6Address") for network in networks]
    return next((str(address) for address in addresses if address), None)
