"""A backend for Slurm: one job is allocated by `salloc`, and every shell is a step of it, opened by `srun`.

README.md beside this file says what was assumed of Slurm, and how it was tested.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar

from pydantic import Field

from environments import BackendSettings, EnvironmentSettings, EnvironmentStartError, Target, TerminalError
from environments.found_target import FoundTarget, State
from environments.owner import UNKNOWN, Owner
from environments.secrets import SAFE_NAMES
from environments.shell.child_stream import ChildStream
from environments.shell.environment import PersistentShellEnvironment
from environments.shell.stream import Stream, Terminal
from environments.starting import current_start

PREFIX = "hermes-"
"""What the names of our jobs begin with, before the name of the environment, by which its owner is known."""
ANSWER_TIMEOUT = 60.0
"""Seconds that the controller may take to answer `squeue` and `scancel`."""
_GRANTED = re.compile(r"Granted job allocation (\d+)")
_PENDING = re.compile(r"Pending job allocation (\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmSettings(BackendSettings):
    """The settings of this backend alone.

    What a job asks for is what it is given at least. Whether it is held to that is a matter of how the cluster is set
    up, so that the limits of `container_*` are refused.
    """

    prefix: ClassVar[str] = "slurm_"

    partition: str | None = None
    """The partition to allocate in; the cluster's default if not set."""
    time: str | None = None
    """How long the job may last, as `salloc --time` reads it: minutes, or `1-12:00:00`; the partition's default if
    not set."""
    cpus: Annotated[int, Field(gt=0)] | None = None
    """Processors to ask for."""
    mem: Annotated[int, Field(gt=0)] | None = None
    """Memory of the node to ask for, in MB."""
    extra_args: tuple[str, ...] = ()
    """Further arguments of `salloc`, such as `["--account=physics", "--gpus=1"]`."""


class SlurmEnvironment(PersistentShellEnvironment):
    """Runs commands on a node of a cluster, in a job of its own."""

    backend = "slurm"
    settings_class = SlurmSettings

    def __init__(self, settings: EnvironmentSettings) -> None:
        super().__init__(settings)
        self._job = ""

    @classmethod
    def list_targets(cls) -> Iterator[FoundTarget]:
        """Go through our jobs, see `BaseEnvironment`. One that waits in the queue has no process yet."""
        for line in _asked("squeue", "--me", "--noheader", "--format=%i %j %T").splitlines():
            job, name, state = [*line.split(), "", ""][:3]
            if name.startswith(PREFIX):
                runs: State = "running" if state == "RUNNING" else "stopped"
                owner = Owner.in_name(name.removeprefix(PREFIX)) or UNKNOWN
                yield FoundTarget("job", job, runs, partial(_asked, "scancel", job), owner=owner, name=name)

    def start_target(self) -> None:
        """Allocate a job, which may wait in the queue for long, see `PersistentShellEnvironment`."""
        self.stop_target()  # what is left of the one that was lost
        name = f"{PREFIX}{self.id}"
        try:
            salloc = subprocess.Popen(
                [*_salloc(SlurmSettings.of(self.settings)), f"--job-name={name}"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
        except OSError as error:
            raise EnvironmentStartError(f"backend 'slurm' needs `salloc` on PATH: {error.strerror}") from error
        try:
            with salloc, current_start().aborting(salloc.terminate):  # it gives back what it has asked for
                said = _followed(salloc)
            if salloc.returncode != 0 or not (granted := _GRANTED.search(said)):
                raise EnvironmentStartError(f"backend 'slurm' was given no job: {said.strip()}")
        except BaseException:
            with contextlib.suppress(TerminalError):
                _asked("scancel", "--quiet", f"--name={name}")  # of which it may have been about to tell
            raise
        self._job = granted[1]

    def open_stream(self, argv: Sequence[str], terminal: Terminal | None = None) -> Stream:
        """Start a step of the job, see `StreamOpener`."""
        how = "--pty" if terminal else "--unbuffered"  # without which only whole lines would come
        step = ["srun", f"--jobid={self._job}", "--overlap", "--nodes=1", "--ntasks=1", "--quiet", how]
        # What is set here goes along to the node, and may be secret.
        known = {name: os.environ[name] for name in (*SAFE_NAMES, "SLURM_CONF") if name in os.environ}
        return ChildStream([*step, "--", *argv], terminal=terminal, env=known)

    def target_loss(self) -> str | None:
        """Say how the job has ended, if it has, see `PersistentShellEnvironment`."""
        try:
            told = _asked("squeue", f"--jobs={self._job}", "--states=all", "--noheader", "--format=%T (%r)").strip()
        except TerminalError as error:
            told = str(error)  # also of a job that ended long ago
        return (
            None if told.startswith("RUNNING") else f"its job {self._job} ended: {told or 'the queue has it no more'}"
        )

    def describe_target(self, cwd: str) -> Target:
        """Say which job it is, on which node, see `PersistentShellEnvironment`."""
        step = ("srun", f"--jobid={self._job}", "--overlap", "--pty", f"--chdir={cwd}")
        node = self.run_control("uname -n").output.strip()
        return Target(
            self.settings.env, "instance", self._job, f"{PREFIX}{self.id}", node, (*step, "--", self.capabilities.shell)
        )

    def stop_target(self) -> None:
        """Cancel the job, see `PersistentShellEnvironment`."""
        job, self._job = self._job, ""
        if job:
            _asked("scancel", job)


def _salloc(own: SlurmSettings) -> list[str]:
    asked = {"partition": own.partition, "time": own.time, "cpus-per-task": own.cpus, "mem": own.mem and f"{own.mem}M"}
    given = [f"--{option}={value}" for option, value in asked.items() if value is not None]
    return ["salloc", "--no-shell", "--nodes=1", "--ntasks=1", *given, *own.extra_args]


def _followed(salloc: subprocess.Popen[str]) -> str:
    """Return all that it says, and tell when it waits."""
    said = ""
    assert salloc.stderr
    for line in salloc.stderr:
        said += line
        if pending := _PENDING.search(line):
            current_start().report(f"waiting in the queue with job {pending[1]}")
    return said


def _asked(*command: str) -> str:
    """Return what a program of Slurm prints.

    Raises:
        TerminalError: It failed.
    """
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=ANSWER_TIMEOUT, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise TerminalError(f"backend 'slurm': {command[0]}: {error}") from error
    if done.returncode != 0:
        raise TerminalError(f"backend 'slurm': {command[0]}: {done.stderr.strip()}")
    return done.stdout
