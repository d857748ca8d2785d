"""A backend for Slurm: `salloc` allocates a job, and `srun` opens every shell as a step of the job.

README.md beside this file lists the assumptions about Slurm, and the tests.
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
"""The prefix of our jobs' names. The environment's name follows, and identifies the owner."""
ANSWER_TIMEOUT = 60.0
"""The time limit of `squeue` and `scancel`, in seconds."""
_GRANTED = re.compile(r"Granted job allocation (\d+)")
_PENDING = re.compile(r"Pending job allocation (\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmSettings(BackendSettings):
    """The settings of this backend alone.

    A job gets at least the requested resources. The cluster's configuration decides if the request is also a limit, so
    that `container_*` is refused.
    """

    prefix: ClassVar[str] = "slurm_"

    partition: str | None = None
    """The partition to allocate in; the cluster's default if not set."""
    time: str | None = None
    """The time limit of the job in the format of `salloc --time`: minutes, or `1-12:00:00`; the partition's default if
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
        # A pending job has no process yet.
        for line in _output("squeue", "--me", "--noheader", "--format=%i %j %T").splitlines():
            job, name, state = [*line.split(), "", ""][:3]
            if name.startswith(PREFIX):
                runs: State = "running" if state == "RUNNING" else "stopped"
                owner = Owner.in_name(name.removeprefix(PREFIX)) or UNKNOWN
                yield FoundTarget("job", job, runs, partial(_output, "scancel", job), owner=owner, name=name)

    def start_target(self) -> None:
        self.stop_target()  # the rest of a lost job
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
            with salloc, current_start().aborting(salloc.terminate):  # on TERM, salloc gives its request back
                output = _messages(salloc)
            if salloc.returncode != 0 or not (granted := _GRANTED.search(output)):
                raise EnvironmentStartError(f"backend 'slurm' was given no job: {output.strip()}")
        except BaseException:
            with contextlib.suppress(TerminalError):
                _output("scancel", "--quiet", f"--name={name}")  # salloc may have been about to print the granted job
            raise
        self._job = granted[1]

    def open_stream(self, argv: Sequence[str], terminal: Terminal | None = None) -> Stream:
        how = "--pty" if terminal else "--unbuffered"  # otherwise only whole lines arrive
        step = ["srun", f"--jobid={self._job}", "--overlap", "--nodes=1", "--ntasks=1", "--quiet", how]
        # srun copies its variables to the node, and some may be secret.
        known = {name: os.environ[name] for name in (*SAFE_NAMES, "SLURM_CONF") if name in os.environ}
        return ChildStream([*step, "--", *argv], terminal=terminal, env=known)

    def target_loss(self) -> str | None:
        try:
            state = _output("squeue", f"--jobs={self._job}", "--states=all", "--noheader", "--format=%T (%r)").strip()
        except TerminalError as error:
            state = str(error)  # also for a job that ended long ago
        return (
            None if state.startswith("RUNNING") else f"its job {self._job} ended: {state or 'no longer in the queue'}"
        )

    def describe_target(self, cwd: str) -> Target:
        step = ("srun", f"--jobid={self._job}", "--overlap", "--pty", f"--chdir={cwd}")
        node = self.run_control("uname -n").output.strip()
        return Target(
            self.settings.env, "instance", self._job, f"{PREFIX}{self.id}", node, (*step, "--", self.capabilities.shell)
        )

    def stop_target(self) -> None:
        job, self._job = self._job, ""
        if job:
            _output("scancel", job)


def _salloc(own: SlurmSettings) -> list[str]:
    asked = {"partition": own.partition, "time": own.time, "cpus-per-task": own.cpus, "mem": own.mem and f"{own.mem}M"}
    given = [f"--{option}={value}" for option, value in asked.items() if value is not None]
    return ["salloc", "--no-shell", "--nodes=1", "--ntasks=1", *given, *own.extra_args]


def _messages(salloc: subprocess.Popen[str]) -> str:
    """Return the standard error of `salloc`, and report progress while the job is pending."""
    output = ""
    assert salloc.stderr
    for line in salloc.stderr:
        output += line
        if pending := _PENDING.search(line):
            current_start().report(f"waiting in the queue with job {pending[1]}")
    return output


def _output(*command: str) -> str:
    """Return the output of a program of Slurm.

    Raises:
        TerminalError: The program failed.
    """
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=ANSWER_TIMEOUT, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise TerminalError(f"backend 'slurm': {command[0]}: {error}") from error
    if done.returncode != 0:
        raise TerminalError(f"backend 'slurm': {command[0]}: {done.stderr.strip()}")
    return done.stdout
