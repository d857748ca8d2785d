"""The command line of Apptainer or Singularity, and the images that instances are started from."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePosixPath

from environments.claim import Claim
from environments.errors import EnvironmentStartError
from environments.model_view import plain
from environments.owner import Owner
from environments.shell.host import run_there
from environments.singularity.machine import ONLY_KEPT, THIS_MACHINE, Machine
from environments.starting import current_start, unstoppable

PROGRAMS = ("apptainer", "singularity")
DEFAULT_IMAGE = "docker://python:3.12-slim"
CLAIM_POLL = 0.2
"""Seconds between looks at a pull that another process has under way."""
_URI = re.compile(r"[a-z][a-z0-9+.-]*://")
_ERROR = re.compile(r"ERROR\s*:")
_LEVEL = re.compile(r"^(FATAL|ERROR)\s*:")
_NAMESPACES = (
    "Without root it needs user namespaces, which are off for this user: have them allowed (sysctl "
    "user.max_user_namespaces, kernel.unprivileged_userns_clone or kernel.apparmor_restrict_unprivileged_userns), or "
    "install the package apptainer-suid"
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one run of the program."""

    exit_code: int
    text: str
    """Its output, with standard output first."""

    @property
    def ok(self) -> bool:
        """Whether it succeeded."""
        return self.exit_code == 0

    @property
    def reason(self) -> str:
        """The line with the reason of a failure."""
        lines = [line.strip() for line in plain(self.text).splitlines()]
        lines = [line for line in lines if line and not line.startswith("INFO:")]
        found = [line for line in lines if line.startswith("FATAL:")] or lines
        if "executing starter" in "".join(found):  # a program of its own, whose errors stand before
            found = [line for line in lines if _ERROR.match(line)] or found
        return _LEVEL.sub("", found[0]).strip() if found else f"it ended with exit code {self.exit_code}"

    @property
    def advice(self) -> str:
        """A sentence behind the reason that helps; empty if there is none."""
        return f". {_NAMESPACES}" if "user namespace" in self.text else ""


@dataclass(frozen=True, slots=True)
class Client:
    """The program, on its machine."""

    program: str
    machine: Machine

    @classmethod
    def found(cls, machine: Machine = THIS_MACHINE) -> Client:
        """Return the client of a machine that was reached.

        Raises:
            EnvironmentStartError: None is installed there.
        """
        program = machine.find_program(PROGRAMS)
        if program is None:
            where = f" of {machine.place}, nor on that of a login shell there" if machine.place else ""
            raise EnvironmentStartError(
                f"backend 'singularity': neither apptainer nor singularity is on PATH{where}; install Apptainer "
                "(the package apptainer of the system, or https://apptainer.org/docs/admin/latest/installation.html)"
            )
        return cls(program, machine)

    def run(
        self,
        *arguments: str,
        whole_environment: bool = False,
        is_short: bool = False,
        on_line: Callable[[str], object] | None = None,
    ) -> Outcome:
        """Run the program to its end, or end it when the start that needs it is stopped.

        Args:
            arguments: The arguments behind the program's name; they show in the process list.
            whole_environment: Whether it sees all variables there (here: of this process), as a pull does for its
                credentials and proxies, and not only those by which the engine finds files.
            is_short: Whether it starts no other program. One that does is watched by a process, which takes a few ms.
            on_line: Receives each line that it prints.

        Raises:
            StartStoppedError: It was ended.
        """
        argv = [self.program, *arguments]
        if not whole_environment:
            argv = ["/bin/sh", "-c", ONLY_KEPT, "sh", *argv]
        done = run_there(self.machine.host, argv, on_line, guarded=not is_short)
        return Outcome(done.exit_code, done.output + done.errors)


def resolve_image(client: Client, image: str | None) -> str:
    """Return the path of an image that an instance can be started from.

    Args:
        client: Pulls an image that is not on its machine.
        image: A path, or a URI; None is `DEFAULT_IMAGE`.

    Raises:
        EnvironmentStartError: There is no such image, or no instance can be started from it.
    """
    image = image or DEFAULT_IMAGE
    if _URI.match(image):
        return str(_pulled(client, image))
    machine = client.machine
    (path, kind), (_, scripts) = machine.look(image, f"{image}/.singularity.d")
    if not kind:
        raise EnvironmentStartError(
            f"backend 'singularity': there is no image {path}{machine.where}; set TERMINAL_SINGULARITY_IMAGE to a SIF "
            f"file, a sandbox directory{' there' if machine.place else ''}, or a URI such as docker://python:3.12-slim"
        )
    # Commands run in a plain root directory too, but an instance has no action script to start with there.
    if kind == "directory" and not scripts:
        raise EnvironmentStartError(
            f"backend 'singularity': {path}{machine.where} is a plain root directory, and an instance needs a sandbox; "
            f"build one: `{PurePosixPath(client.program).name} build --sandbox NEW_DIRECTORY {path}`, and set "
            "TERMINAL_SINGULARITY_IMAGE to that directory"
        )
    return str(path)


def claim_name(machine: Machine, name: str) -> str:
    """Return the name of a claim of this machine's processes on something of a machine."""
    where = f"{hashlib.sha256(machine.place.encode()).hexdigest()[:8]}-" if machine.place else ""
    return f"singularity-{where}{name}"


def _pulled(client: Client, uri: str) -> PurePosixPath:
    machine = client.machine
    readable = re.sub(r"[^A-Za-z0-9._-]+", "-", uri.partition("://")[2].rstrip("/"))[:60]
    folder = machine.folder / "images"
    target = folder / f"{readable}-{hashlib.sha256(uri.encode()).hexdigest()[:12]}.sif"
    if machine.kind(target):
        return target
    claim = Claim(claim_name(machine, target.name))
    start = current_start()
    while not claim.acquire():
        start.report(f"waiting for another process that pulls {uri}")
        start.pause(CLAIM_POLL)
    # The claim is this machine's, so that processes of others may pull the same image there.
    part = target.with_suffix(f".{Owner.this_process().mark.partition('-')[0]}.part")
    try:
        if not machine.kind(target):  # another process may have pulled it while we waited
            machine.make_folder(folder)
            _pull(client, uri, part)
            machine.rename(part, target)
    finally:
        try:
            with unstoppable():
                machine.remove(part)
        finally:
            claim.release()
    return target


def _pull(client: Client, uri: str, into: PurePosixPath) -> None:
    start = current_start()
    start.report(f"pulling {uri}")

    def tell(line: str) -> None:
        level, _, text = line.partition(":")
        if level == "INFO" and text.strip():
            start.report(f"pulling {uri}: {text.strip()}")

    outcome = client.run("pull", "--force", str(into), uri, whole_environment=True, on_line=tell)
    if not outcome.ok:
        there = "there" if client.machine.place else "here"
        raise EnvironmentStartError(
            f"backend 'singularity': cannot pull {uri}: {outcome.reason}. Check the name and the network, or set "
            f"TERMINAL_SINGULARITY_IMAGE to a SIF file or a sandbox directory that is {there}"
        )
