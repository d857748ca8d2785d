"""Boxes, the sandboxes of the stand-ins: directories of this machine, or Docker containers."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import stat
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from standins.box_process import BoxProcess, Size

LABEL = "hermes-standin"
MARKER = "STANDIN_BOX"
"""Variable that marks the processes of a box on this machine."""

COPIED = (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK)

SIZED = 'until [ "$(stty size)" = "$1 $2" ]; do sleep 0.01; done; shift 2; exec "$@"'


@dataclass(frozen=True, slots=True)
class BoxSpec:
    """The requested properties of a sandbox."""

    image: str = ""
    """A snapshot of a box; empty for the stand-in's image, as images are never pulled."""
    workdir: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    cpu: float = 0
    memory_mb: int = 0
    network: bool = True


class Box(Protocol):
    """A running sandbox."""

    async def start(
        self,
        argv: Sequence[str],
        *,
        cwd: str = "",
        env: Mapping[str, str] | None = None,
        terminal: Size | None = None,
        merge: bool = False,
    ) -> BoxProcess:
        """Start a process; `merge` merges stderr into stdout. Raises OSError if the start fails."""

    async def snapshot(self) -> str:
        """Copy the files, and return a name for `BoxSpec.image`."""

    async def halt(self) -> None:
        """End all processes and keep the files."""

    async def resume(self) -> None:
        """Make a halted box usable again."""

    async def destroy(self) -> None:
        """End all processes and remove the files. A second call is harmless."""


class Boxes(Protocol):
    """Makes boxes of one kind."""

    async def create(self, spec: BoxSpec) -> Box:
        """Make a box."""

    async def close(self) -> None:
        """Remove all boxes and snapshots."""


class HostBox:
    """A directory of this machine, with no isolation at all."""

    def __init__(self, root: Path, spec: BoxSpec) -> None:
        self.root, self._spec, self._id = root, spec, uuid.uuid4().hex

    async def start(
        self,
        argv: Sequence[str],
        *,
        cwd: str = "",
        env: Mapping[str, str] | None = None,
        terminal: Size | None = None,
        merge: bool = False,
    ) -> BoxProcess:
        home = {"PATH": os.environ["PATH"], "HOME": str(self.root), "TMPDIR": str(self.root), MARKER: self._id}
        full = {**home, **self._spec.env, **(env or {})}
        place = cwd or self._spec.workdir or str(self.root)
        return BoxProcess(argv, cwd=place, env=full, terminal=terminal, merge=merge)

    async def snapshot(self) -> str:
        copy = self.root.with_name(f"snapshot-{uuid.uuid4().hex[:8]}")
        await asyncio.to_thread(shutil.copytree, self.root, copy, symlinks=True, ignore=_special)
        return copy.name

    async def halt(self) -> None:
        mark = f"{MARKER}={self._id}".encode()
        for environ in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):
                if mark in environ.read_bytes():
                    os.kill(int(environ.parent.name), signal.SIGKILL)

    async def resume(self) -> None:
        pass

    async def destroy(self) -> None:
        await self.halt()
        await asyncio.to_thread(shutil.rmtree, self.root, ignore_errors=True)


def _special(folder: str, names: list[str]) -> list[str]:
    """Return the names of pipes and sockets. They cannot be copied."""
    return [name for name in names if stat.S_IFMT(os.lstat(f"{folder}/{name}").st_mode) not in COPIED]


class HostBoxes:
    """Makes boxes on this machine."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="si-"))  # short, for the paths of sockets
        self._made: list[HostBox] = []

    async def create(self, spec: BoxSpec) -> HostBox:
        root = self._folder / str(len(self._made))
        if spec.image:
            await asyncio.to_thread(shutil.copytree, self._folder / spec.image, root, symlinks=True)
        else:
            root.mkdir()
        box = HostBox(root, spec)
        self._made.append(box)
        return box

    async def close(self) -> None:
        for box in self._made:
            await box.halt()
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)


class DockerBox:
    """A container. Processes enter through `docker exec`, or through `nsenter` if the result is the same."""

    def __init__(self, container: str, spec: BoxSpec, images: list[str]) -> None:
        self.container, self._spec, self._images = container, spec, images
        self._first: int | None = None

    async def start(
        self,
        argv: Sequence[str],
        *,
        cwd: str = "",
        env: Mapping[str, str] | None = None,
        terminal: Size | None = None,
        merge: bool = False,
    ) -> BoxProcess:
        tag = uuid.uuid4().hex

        async def kill() -> None:
            # The client's end leaves the process in the container running. Only builtins and grep are certain there.
            look = f"grep -lsF {MARKER}={tag} /proc/[0-9]*/environ"
            end = f'for f in $({look}); do p=${{f#/proc/}}; kill -KILL "${{p%/environ}}"; done'
            await docker("exec", self.container, "sh", "-c", end, check=False)

        given = {**(env or {}), MARKER: tag}
        if not (terminal or cwd or self._spec.cpu or self._spec.memory_mb) and (way := await self._way_in()):
            return BoxProcess(
                [*way, *argv], env={**self._variables(), **given}, merge=merge, kill=kill, stops_with_child=True
            )
        options = [part for name, value in given.items() for part in ("-e", f"{name}={value}")]
        place = ["-w", cwd] if cwd else []
        tty = ["-t"] if terminal else []
        # Docker sets the size of a terminal only after it has started the process.
        sized = ["sh", "-c", SIZED, "sh", *map(str, terminal)] if terminal else []
        options = ["-i", *tty, *place, *options]
        command = ["docker", "exec", *options, self.container, *sized, *argv]
        return BoxProcess(command, terminal=terminal, raw=True, merge=merge, kill=kill)

    async def _way_in(self) -> list[str]:
        """Return the `nsenter` command, a tenth of the cost of `docker exec`; empty for a container elsewhere."""
        program = shutil.which("nsenter")
        if program is None or os.geteuid() != 0:
            return []
        if self._first is None:
            self._first = int(await docker("inspect", "--format", "{{.State.Pid}}", self.container))
        if self._variables().get("HOSTNAME") != self.container[:12]:
            return []
        namespaces = ("--mount", "--uts", "--ipc", "--net", "--pid")
        return [program, f"--target={self._first}", *namespaces, "--root", "--wd"]

    def _variables(self) -> dict[str, str]:
        """Return the variables of the container's first process."""
        try:
            words = Path(f"/proc/{self._first}/environ").read_bytes().decode("utf-8", "surrogateescape").split("\0")
        except OSError:
            return {}
        return {"HOME": "/root", **dict(word.split("=", 1) for word in words if "=" in word)}

    async def snapshot(self) -> str:
        image = await docker("commit", self.container)
        self._images.append(image)
        return image

    async def halt(self) -> None:
        await docker("stop", "--time", "0", self.container)

    async def resume(self) -> None:
        await docker("start", self.container)
        self._first = None

    async def destroy(self) -> None:
        await docker("rm", "--force", "--volumes", self.container, check=False)


class DockerBoxes:
    """Makes boxes in containers of one image.

    Args:
        image: An image of the engine.
    """

    def __init__(self, image: str) -> None:
        self._image, self._label = image, f"{LABEL}={uuid.uuid4().hex}"
        self._images: list[str] = []

    async def create(self, spec: BoxSpec) -> DockerBox:
        options = ["--init", "--label", self._label, "--entrypoint", "sleep", "--stop-signal", "KILL"]
        options += ["--network", "bridge" if spec.network else "none"]
        options += ["--workdir", spec.workdir] if spec.workdir else []
        options += ["--cpus", f"{spec.cpu:g}"] if spec.cpu else []
        options += ["--memory", f"{spec.memory_mb}m"] if spec.memory_mb else []
        options += [part for name, value in spec.env.items() for part in ("--env", f"{name}={value}")]
        container = await docker("run", "--detach", *options, spec.image or self._image, "2147483647")
        return DockerBox(container, spec, self._images)

    async def close(self) -> None:
        left = await docker("ps", "--all", "--quiet", "--filter", f"label={self._label}")
        if left:
            await docker("rm", "--force", "--volumes", *left.split(), check=False)
        if self._images:
            await docker("rmi", "--force", *self._images, check=False)


async def docker(*arguments: str, check: bool = True) -> str:
    """Run the Docker command line and return its output. With `check`, a failure raises OSError."""
    pipe = asyncio.subprocess.PIPE
    child = await asyncio.create_subprocess_exec("docker", *arguments, stdout=pipe, stderr=pipe)
    out, err = await child.communicate()
    if check and child.returncode != 0:
        raise OSError(f"docker {arguments[0]}: {err.decode().strip()}")
    return out.decode().strip()
