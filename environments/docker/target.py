"""Labels, address, working directory, memory kills and removal of one container."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import shutil
import sys
import tarfile
import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from docker.errors import APIError, NotFound

from environments.docker.engine import UNIX, DockerEngine
from environments.errors import UnsupportedError
from environments.owner import Owner
from environments.settings import hermes_home
from environments.shell.memory import kills
from environments.target import Address, Target, this_machine

if TYPE_CHECKING:
    from docker import APIClient


OWNER = "hermes-environments.owner"
"""The label with the container's process, see `Owner`."""
TASK = "hermes-environments.task"
FINGERPRINT = "hermes-environments.fingerprint"
KEPT = "hermes-environments.kept"
"""The label of a kept container: the host and the `HERMES_HOME` for its reuse."""

RUNNING = ("running", "paused")
"""States of a container with processes."""

USUAL_ENGINE = f"{UNIX}/var/run/docker.sock"
_ALL_INTERFACES = ("", "0.0.0.0", "::")  # noqa: S104 - addresses of the engine for published ports
_SHARED = "container:"
"""The prefix of the network mode of a container in another container's network."""
_MKDIR_AS_USER = """\
d=$1
case $d in
  "~") d=$HOME ;;
  "~/"*) d=$HOME/${d#"~/"} ;;
  /*) ;;
  *) d=$PWD/$d ;;
esac
[ -d "$d" ] || mkdir -p -- "$d" 2>/dev/null && exit
p=$d
while [ ! -e "$p" ]; do p=${p%/*}; p=${p:-/}; done
if [ -x "$p" ]; then printf '%s\\0%s\\0%s\\0%s' "$p" "$d" "$(id -u)" "$(id -g)"; fi
"""
"""Prints the parent, the directory, its user id and group id, if the user may not create the directory."""
_OOM_END = 1.0
"""Seconds from the memory kill of a container's first process to the end of the container."""
REMOVAL_TIMEOUT = 10.0
"""Seconds for another removal of the same container."""
_POLL = 0.05
_CONFLICT = 409


def labels(task: str, fingerprint: str, *, kept: bool) -> dict[str, str]:
    """Return the labels of a new container."""
    own = {OWNER: str(Owner.this_process()), TASK: task, FINGERPRINT: fingerprint}
    return {**own, KEPT: f"{Owner.this_process().host} {hermes_home().absolute()}"} if kept else own


def claim_name(task: str, fingerprint: str) -> str:
    """Return the name of the claim on a kept container."""
    return "docker-" + hashlib.sha256(f"{task}\0{fingerprint}".encode()).hexdigest()[:24]


def container_target(engine: DockerEngine, about: Mapping[str, Any], shell: str, cwd: str, user: str) -> Target:
    """Describe a container.

    Args:
        engine: The engine.
        about: The engine's description of the container.
        shell: The shell to enter with.
        cwd: The working directory of that shell.
        user: The user of that shell; empty for the container's own.
    """
    as_user = ("--user", user) if user else ()
    entering = ("exec", "-it", *as_user, "--workdir", cwd, str(about["Id"]), shell)
    if engine.host:
        enter = engine.host.login_command(("docker", *entering))
    else:
        has_podman_alone = shutil.which("docker") is None and shutil.which("podman") is not None
        program, option = ("podman", "--url") if has_podman_alone else ("docker", "--host")
        enter = (program, *(() if engine.address == USUAL_ENGINE else (option, engine.address)), *entering)
    return Target("docker", "container", str(about["Id"]), str(about["Name"]).lstrip("/"), _host_name(engine), enter)


def _host_name(engine: DockerEngine) -> str:
    return this_machine() if engine.address.startswith(UNIX) else urlsplit(engine.address).hostname or ""


def container_address(engine: DockerEngine, api: APIClient, container: str, port: int) -> Address:
    """Return the address at which a port of a container is reached from here.

    Args:
        engine: The engine.
        api: The engine's client.
        container: The container.
        port: The port inside the container.

    Raises:
        UnsupportedError: The port cannot be reached.
    """
    about = api.inspect_container(container)
    mode = str(about["HostConfig"].get("NetworkMode") or "")
    if mode.startswith(_SHARED):
        return container_address(engine, api, mode.removeprefix(_SHARED), port)
    short = str(about["Id"])[:12]
    if mode == "none":
        raise UnsupportedError(
            f"backend 'docker': no port of container {short} can be reached, as it has no network; give it one, "
            "such as by the setting network"
        )
    if mode == "host":
        return _on_engines_machine(engine, "", port)
    own = _own_address(about)
    if own and _is_on_its_networks(engine, api):
        return engine.host.forwarded(own, port) if engine.host else Address(own, port)
    for published in (about["NetworkSettings"].get("Ports") or {}).get(f"{port}/tcp") or ():
        return _on_engines_machine(engine, str(published.get("HostIp") or ""), int(published["HostPort"]))
    raise UnsupportedError(
        f"backend 'docker': port {port} of container {short} cannot be reached: this machine is not on the networks "
        f"of the engine at {engine.address}; publish the port, such as by the setting extra_args "
        f'["--publish={port}"]'
    )


def _on_engines_machine(engine: DockerEngine, host: str, port: int) -> Address:
    """Return where an address of the engine's machine is reached from here. An empty address means all interfaces."""
    is_anywhere = host in _ALL_INTERFACES
    if engine.host:
        return engine.host.forwarded("localhost" if is_anywhere else host, port)
    if engine.address.startswith(UNIX):
        return Address("127.0.0.1" if is_anywhere else host, port)
    return Address(_host_name(engine) if is_anywhere else host, port)


def _is_on_its_networks(engine: DockerEngine, api: APIClient) -> bool:
    """Return True if this machine, or the host on the way to the engine, is on the container networks.

    False for an engine in a virtual machine, and for a rootless engine: its networks are in a namespace.
    """
    if engine.host is None and not (engine.address.startswith(UNIX) and sys.platform == "linux"):
        return False
    rootless = any("rootless" in str(option) for option in api.info().get("SecurityOptions") or ())
    return not rootless or (engine.host is None and os.geteuid() == 0)


def _own_address(about: Mapping[str, Any]) -> str | None:
    networks = (about["NetworkSettings"].get("Networks") or {}).values()
    addresses = [network.get(key) for key in ("IPAddress", "GlobalIPv6Address") for network in networks]
    return next((str(address) for address in addresses if address), None)


def make_working_directory(api: APIClient, container: str, cwd: str) -> None:
    """Create a directory in a container: as the container's user, or if that fails by the engine, for that user.

    No process of the container gets more rights. A failure is reported later, by the session that begins there.

    Args:
        api: The engine.
        container: A running container.
        cwd: The directory. `~` is the home of the container's user.
    """
    made = api.exec_create(container, ["/bin/sh", "-c", _MKDIR_AS_USER, "sh", cwd], stderr=False)
    printed = bytes(api.exec_start(made["Id"])).decode("utf-8", "surrogateescape")
    parent, *wanted = printed.split("\0")
    if len(wanted) == 3:
        directory, uid, gid = wanted
        new = PurePosixPath(directory).relative_to(parent)
        with contextlib.suppress(APIError):  # a read-only root has no new directories
            api.put_archive(container, parent, _archive(new, int(uid), int(gid)))


def _archive(path: PurePosixPath, uid: int, gid: int) -> bytes:
    """Return an archive of a directory and its parents; only the directory itself belongs to the user."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        for each in (*reversed(path.parents[:-1]), path):
            entry = tarfile.TarInfo(str(each))
            entry.type, entry.mode, entry.mtime = tarfile.DIRTYPE, 0o755, time.time()
            if each == path:
                entry.uid, entry.gid = uid, gid
            archive.addfile(entry)
    return data.getvalue()


def remove(api: APIClient, container: str) -> None:
    """Remove a container, if it exists. Waits for a removal by another process, such as a `gc`.

    Raises:
        APIError: The engine refused.
    """
    with contextlib.suppress(NotFound):
        try:
            api.remove_container(container, force=True, v=True)
        except APIError as error:
            deadline = time.monotonic() + REMOVAL_TIMEOUT
            while error.status_code == _CONFLICT and time.monotonic() < deadline:
                api.inspect_container(container)
                time.sleep(_POLL)
            raise


class Memory:
    """Checks whether a container has run out of memory since the last check.

    Args:
        since: Start of the first check, by the engine's clock; empty is the start of the container.
    """

    def __init__(self, since: str = "") -> None:
        self._since = since
        self._kills = 0

    def has_killed(self, api: APIClient, files: str) -> bool:
        """Return True if the kernel has killed a process of the container.

        Args:
            api: The engine.
            files: Contents of the cgroup's files, see `counting_kills`.
        """
        found = kills(files)
        if found <= self._kills:
            return False
        self._kills = found
        self._since = engine_time(api)
        return True

    def ran_out(self, api: APIClient, container: str) -> bool:
        """Return True for a kill in the engine's events, for a container without readable cgroup files."""
        since = self._since or _timestamp(str(api.inspect_container(container)["State"]["StartedAt"]))
        self._since = engine_time(api)
        return bool(_oom_times(api, container, since, self._since))


def ended_by_oom(api: APIClient, container: str, state: Mapping[str, Any]) -> bool:
    """Return True if a container ended because it ran out of memory.

    `OOMKilled` is set for the kill of any process, such as a command long before. The engine's events have the times;
    Podman has no such events.
    """
    if not state["OOMKilled"]:
        return False
    times = _oom_times(api, container, _timestamp(str(state["StartedAt"])), engine_time(api))
    return not times or times[-1] >= float(_timestamp(str(state["FinishedAt"]))) - _OOM_END


def _oom_times(api: APIClient, container: str, since: str, until: str) -> list[float]:
    """Return the times at which a container ran out of memory.

    The container's state covers the first process alone, so the events are read. They end at the engine's own time: for
    a later time the engine would wait.
    """
    # The stubs want whole seconds, which are too coarse.
    events = api.events(  # type: ignore[call-overload]
        since=since, until=until, filters={"container": container, "event": "oom"}, decode=True
    )
    return [event["timeNano"] / 1e9 for event in events]


def engine_time(api: APIClient) -> str:
    """Return the engine's time, as a timestamp for its requests."""
    return _timestamp(str(api.info()["SystemTime"]))


def _timestamp(text: str) -> str:
    """Convert a time of the engine's answers into a timestamp for its requests."""
    return f"{datetime.fromisoformat(text).timestamp():.6f}"
