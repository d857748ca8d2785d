"""Command line of Apptainer or Singularity, and the images of instances."""

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
from environments.singularity.machine import CLEAN_ENVIRONMENT, THIS_MACHINE, Machine
from environments.starting import current_start, unstoppable

PROGRAMS = ("apptainer", "singularity")
DEFAULT_IMAGE = "docker://python:3.12-slim"
CLAIM_POLL = 0.2
"""Seconds between attempts to claim a pull that another process is running."""
_URI = re.compile(r"[a-z][a-z0-9+.-]*://")
_ERROR = re.compile(r"ERROR\s*:")
_LEVEL = re.compile(r"^(FATAL|ERROR)\s*:")
_NAMESPACES = (
    "Without root it needs user namespaces, which are off for this user: have them allowed (sysctl "
    "user.max_user_namespaces, kernel.unprivileged_userns_clone or kernel.apparmor_restrict_unprivileged_userns), or "
    "install the package apptainer-suid"
)


@dataclass(frozen=True, slots=True)
class ProgramResult:
    """The result of one run of the engine's program."""

    exit_code: int
    text: str
    """Standard output, then standard error."""

    @property
    def ok(self) -> bool:
        """True if the program succeeded."""
        return self.exit_code == 0

    @property
    def reason(self) -> str:
        """The line with the reason of a failure."""
        lines = [line.strip() for line in plain(self.text).splitlines()]
        lines = [line for line in lines if line and not line.startswith("INFO:")]
        found = [line for line in lines if line.startswith("FATAL:")] or lines
        if "executing starter" in "".join(found):  # the starter is a separate program: its errors come before
            found = [line for line in lines if _ERROR.match(line)] or found
        return _LEVEL.sub("", found[0]).strip() if found else f"it ended with exit code {self.exit_code}"

    @property
    def hint(self) -> str:
        """A sentence with the remedy, to follow the reason; may be empty."""
        return f". {_NAMESPACES}" if "user namespace" in self.text else ""


@dataclass(frozen=True, slots=True)
class Client:
    """The engine's program on a machine."""

    program: str
    machine: Machine

    @classmethod
    def find(cls, machine: Machine = THIS_MACHINE) -> Client:
        """Return the client of a connected machine.

        Raises:
            EnvironmentStartError: Neither program is installed there.
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
    ) -> ProgramResult:
        """Run the program to its end. A stop of the current start ends the program early.

        Args:
            arguments: Arguments of the program; visible in the process list.
            whole_environment: Pass all variables of the machine (here: of this process), as a pull needs for its
                credentials and proxies. Else only those that the engine needs to find files.
            is_short: True for a run without child programs. Others have a second process that ends them, at a few ms.
            on_line: Receives each line of output.

        Raises:
            StartStoppedError: The program was ended early.
        """
        argv = [self.program, *arguments]
        if not whole_environment:
            argv = ["/bin/sh", "-c", CLEAN_ENVIRONMENT, "sh", *argv]
        done = run_there(self.machine.host, argv, on_line, guarded=not is_short)
        return ProgramResult(done.exit_code, done.output + done.errors)


def resolve_image(client: Client, image: str | None) -> str:
    """Return the path of an image for an instance.

    Args:
        client: Pulls an image that is missing on its machine.
        image: A path or a URI; None is `DEFAULT_IMAGE`.

    Raises:
        EnvironmentStartError: There is no such image, or an instance cannot use the image.
    """
    image = image or DEFAULT_IMAGE
    if _URI.match(image):
        return str(_pull_once(client, image))
    machine = client.machine
    (path, kind), (_, scripts) = machine.resolve_paths(image, f"{image}/.singularity.d")
    if not kind:
        raise EnvironmentStartError(
            f"backend 'singularity': there is no image {path}{machine.where}; set TERMINAL_SINGULARITY_IMAGE to a SIF "
            f"file, a sandbox directory{' there' if machine.place else ''}, or a URI such as docker://python:3.12-slim"
        )
    # Commands could run in a plain root directory, but an instance needs its action script there.
    if kind == "directory" and not scripts:
        raise EnvironmentStartError(
            f"backend 'singularity': {path}{machine.where} is a plain root directory, and an instance needs a sandbox; "
            f"build one: `{PurePosixPath(client.program).name} build --sandbox NEW_DIRECTORY {path}`, and set "
            "TERMINAL_SINGULARITY_IMAGE to that directory"
        )
    return str(path)


def claim_name(machine: Machine, name: str) -> str:
    """Return the name of the claim, among this machine's processes, on a resource of a machine."""
    where = f"{hashlib.sha256(machine.place.encode()).hexdigest()[:8]}-" if machine.place else ""
    return f"singularity-{where}{name}"


def _pull_once(client: Client, uri: str) -> PurePosixPath:
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
    # The claim covers this machine only: processes of other machines may pull the same image at the same time.
    part = target.with_suffix(f".{Owner.this_process().mark.partition('-')[0]}.part")
    try:
        if not machine.kind(target):  # another process may have finished the pull meanwhile
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

    def report_progress(line: str) -> None:
        level, _, text = line.partition(":")
        if level == "INFO" and text.strip():
            start.report(f"pulling {uri}: {text.strip()}")

    result = client.run("pull", "--force", str(into), uri, whole_environment=True, on_line=report_progress)
    if not result.ok:
        there = "there" if client.machine.place else "here"
        raise EnvironmentStartError(
            f"backend 'singularity': cannot pull {uri}: {result.reason}. Check the name and the network, or set "
            f"TERMINAL_SINGULARITY_IMAGE to a SIF file or a sandbox directory {there}"
        )
