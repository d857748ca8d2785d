"""Questions about one container: its labels, its place and address, its directory, its memory, its removal."""

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

from environments.docker.engine import UNIX, Engine
from environments.errors import UnsupportedError
from environments.owner import Owner
from environments.settings import hermes_home
from environments.shell.memory import kills
from environments.target import Address, Target, this_machine

if TYPE_CHECKING:
    from docker import APIClient


OWNER = "hermes-environments.owner"
"""The process the container belongs to, see `Owner`."""
TASK = "hermes-environments.task"
FINGERPRINT = "hermes-environments.fingerprint"
KEPT = "hermes-environments.kept"
"""On a container that outlives its process: the host and `HERMES_HOME` where it can be taken up again."""

RUNNING = ("running", "paused")
"""States of a container in which it has processes."""

USUAL_ENGINE = f"{UNIX}/var/run/docker.sock"
_ANYWHERE = ("", "0.0.0.0", "::")  # noqa: S104 - what the engine says of a port that it has published
_SHARED = "container:"
"""The prefix of the network of a container that shares another one's."""
_MADE_BY_USER = """\
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
"""It prints the parent, the directory and its owner, if the user may not make it."""
_END_OF_MEMORY = 1.0
"""Seconds in which a container ends whose first process was ended for its memory."""
REMOVAL_TIMEOUT = 10.0
"""Seconds that another removal of a container may take."""
_POLL = 0.05
_CONFLICT = 409


def labels(task: str, fingerprint: str, *, kept: bool) -> dict[str, str]:
    """Return the labels of a new container."""
    own = {OWNER: str(Owner.this_process()), TASK: task, FINGERPRINT: fingerprint}
    return {**own, KEPT: f"{Owner.this_process().host} {hermes_home().absolute()}"} if kept else own


def claim_name(task: str, fingerprint: str) -> str:
    """Return the name of the claim on a kept container."""
    return "docker-" + hashlib.sha256(f"{task}\0{fingerprint}".encode()).hexdigest()[:24]


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
        has_podman_alone = shutil.which("docker") is None and shutil.which("podman") is not None
        program, option = ("podman", "--url") if has_podman_alone else ("docker", "--host")
        enter = (program, *(() if engine.address == USUAL_ENGINE else (option, engine.address)), *entering)
    return Target("docker", "container", str(about["Id"]), str(about["Name"]).lstrip("/"), _host_of(engine), enter)


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
            "one, such as by the setting network"
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
        f"of the engine at {engine.address}; have it published, such as by the setting extra_args "
        f'["--publish={port}"]'
    )


def _on_engines_machine(engine: Engine, host: str, port: int) -> Address:
    """Return where a port at an address of the engine's machine can be reached. An empty address is all."""
    is_anywhere = host in _ANYWHERE
    if engine.host:
        return engine.host.forwarded("localhost" if is_anywhere else host, port)
    if engine.address.startswith(UNIX):
        return Address("127.0.0.1" if is_anywhere else host, port)
    return Address(_host_of(engine) if is_anywhere else host, port)


def _is_on_its_networks(engine: Engine, api: APIClient) -> bool:
    """Return True if this machine, or the one that the engine is reached over, is on the networks of its containers.

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


def make_working_directory(api: APIClient, container: str, cwd: str) -> None:
    """Make a directory in a container: as the container's user where that may, and else by the engine, for that user.

    No process of the container's gets more rights for it. What cannot be made is not told here: the session, which is
    to begin there, says so.

    Args:
        api: The engine.
        container: A container that runs.
        cwd: The directory. `~` is the home of the container's user.
    """
    made = api.exec_create(container, ["/bin/sh", "-c", _MADE_BY_USER, "sh", cwd], stderr=False)
    printed = bytes(api.exec_start(made["Id"])).decode("utf-8", "surrogateescape")
    parent, *wanted = printed.split("\0")
    if len(wanted) == 3:
        directory, uid, gid = wanted
        new = PurePosixPath(directory).relative_to(parent)
        with contextlib.suppress(APIError):  # nothing can be made below a root that is read-only
            api.put_archive(container, parent, _archive(new, int(uid), int(gid)))


def _archive(path: PurePosixPath, uid: int, gid: int) -> bytes:
    """Return an archive of a directory and those above it, of which the last alone is the user's."""
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
    """Remove a container, if it is there. If another process, such as a `gc`, has begun to, wait for that.

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
    """Tells whether a container has run out of memory since it was asked last.

    Args:
        since: The moment from which it counts, by the engine's clock; empty is the start of the container.
    """

    def __init__(self, since: str = "") -> None:
        self._since = since
        self._kills = 0

    def has_killed(self, api: APIClient, files: str) -> bool:
        """Return whether the kernel has ended a process of the container.

        Args:
            api: The engine.
            files: What the cgroup's files hold, see `counting_kills`.
        """
        found = kills(files)
        if found <= self._kills:
            return False
        self._kills = found
        self._since = now_there(api)
        return True

    def ran_out(self, api: APIClient, container: str) -> bool:
        """Return whether it has by the engine's events, for a container whose files cannot be read."""
        since = self._since or _timestamp(str(api.inspect_container(container)["State"]["StartedAt"]))
        self._since = now_there(api)
        return bool(_times_out_of_memory(api, container, since, self._since))


def ended_of_memory(api: APIClient, container: str, state: Mapping[str, Any]) -> bool:
    """Return whether a container has ended as it ran out of memory.

    Its state tells, as long as it is there, that any process of it was ended for its memory, such as a command long
    before. The engine's events tell when that was; Podman has none of them.
    """
    if not state["OOMKilled"]:
        return False
    times = _times_out_of_memory(api, container, _timestamp(str(state["StartedAt"])), now_there(api))
    return not times or times[-1] >= float(_timestamp(str(state["FinishedAt"]))) - _END_OF_MEMORY


def _times_out_of_memory(api: APIClient, container: str, since: str, until: str) -> list[float]:
    """Return when a container ran out of memory.

    The engine's state of a container tells it of the first process alone, so that its events are asked for. They are
    bounded by the engine's own clock, as it would wait for a moment that it has not come to.
    """
    # Whole seconds, which the stubs want, are too coarse.
    events = api.events(  # type: ignore[call-overload]
        since=since, until=until, filters={"container": container, "event": "oom"}, decode=True
    )
    return [event["timeNano"] / 1e9 for event in events]


def now_there(api: APIClient) -> str:
    """Return the time by the engine's clock, as it wants to be asked."""
    return _timestamp(str(api.info()["SystemTime"]))


def _timestamp(text: str) -> str:
    """Turn a time as the engine tells it into one as it wants to be asked."""
    return f"{datetime.fromisoformat(text).timestamp():.6f}"
