"""A small stand-in for Slurm: `salloc`, `srun`, `scancel` and `squeue` on this machine as the cluster.

`install` copies this file for each program into a directory, which also has the jobs. A step is a process with its own
session and a marker variable, the job's id. A job's end kills all processes with the marker.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(sys.argv[0]).absolute().parent
JOBS = HERE / "jobs"
PROGRAMS = ("salloc", "srun", "scancel", "squeue")
FULL = "full"
"""Name of a file beside the programs: as long as it exists, jobs wait in the queue."""
UNKNOWN = "Invalid job id specified"


def install(folder: Path) -> None:
    """Put the programs into a folder, for PATH."""
    (folder / "jobs").mkdir(parents=True)
    for name in PROGRAMS:
        program = folder / name
        program.write_text(f"#!{sys.executable} -IS\n{Path(__file__).read_text()}")
        program.chmod(0o755)


def option(name: str) -> str:
    """Return the value of `--name=value` before any `--`; empty if missing."""
    found = [arg.partition("=")[2] for arg in _options() if arg.startswith(f"--{name}=")]
    return found[-1] if found else ""


def _options() -> list[str]:
    return sys.argv[1 : sys.argv.index("--")] if "--" in sys.argv else sys.argv[1:]


def fail(said: str) -> int:
    print(f"{Path(sys.argv[0]).name}: error: {said}", file=sys.stderr)
    return 1


def state_of(job: str) -> str:
    """Return `STATE (reason)`; empty if there is no such job."""
    with contextlib.suppress(OSError):
        return (JOBS / job / "state").read_text()
    return ""


def end(job: str, state: str) -> None:
    """End a job, and kill its processes."""
    (JOBS / job / "state").write_text(state)
    mark = f"FAKE_SLURM_JOB={HERE}/{job}\0".encode()
    for _ in range(100):
        found = [path.parent for path in Path("/proc").glob("[0-9]*/environ") if mark in _read(path)]
        for process in sorted(found, key=_started):  # a shell before its command, or it would report the command's end
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(process.name), signal.SIGKILL)
        if not found:
            return
        time.sleep(0.02)


def _started(process: Path) -> int:
    """Return a process's start time in ticks. Process ids wrap around, and give no order."""
    fields = _read(process / "stat").rpartition(b")")[2].split()
    return int(fields[19]) if len(fields) > 19 else 0


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes() + b"\0"
    except OSError:
        return b""


def salloc() -> int:
    if "--no-shell" not in sys.argv:
        return fail("only --no-shell is understood")
    if (refused := option("partition")) == "none":
        return fail(f"invalid partition specified: {refused}")
    taken = [int(path.name) for path in JOBS.iterdir()]
    job = str(max([1000, *taken]) + 1)
    (JOBS / job).mkdir()
    (JOBS / job / "name").write_text(option("job-name"))
    (JOBS / job / "asked").write_text("\n".join(sys.argv[1:]))
    (JOBS / job / "state").write_text("PENDING (Resources)")
    if (HERE / FULL).exists():
        signal.signal(signal.SIGTERM, lambda *_: _relinquish(job))
        print(f"salloc: Pending job allocation {job}", file=sys.stderr, flush=True)
        while (HERE / FULL).exists():
            time.sleep(0.05)
    (JOBS / job / "state").write_text("RUNNING (None)")
    print(f"salloc: Granted job allocation {job}", file=sys.stderr)
    return 0


def _relinquish(job: str) -> None:
    end(job, "CANCELLED (None)")
    print(f"salloc: Job allocation {job} has been revoked.", file=sys.stderr)
    raise SystemExit(1)


def srun() -> int:
    job, command = option("jobid"), sys.argv[sys.argv.index("--") + 1 :]
    if not state_of(job).startswith("RUNNING") or "--overlap" not in sys.argv:
        return fail(f"Unable to confirm allocation for job {job}: {UNKNOWN}")
    env = {**os.environ, "SLURM_JOB_ID": job, "FAKE_SLURM_JOB": f"{HERE}/{job}"}
    has_terminal = "--pty" in sys.argv
    if not has_terminal:
        step = subprocess.Popen(command, env=env, start_new_session=True)
    else:
        step = subprocess.Popen(["setsid", "--ctty", *command], env=env)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: step.send_signal(number))
    devnull = os.open(os.devnull, os.O_RDWR)
    for ours in (0, 1, 2):  # the step alone holds the streams open
        os.dup2(devnull, ours)
    code = step.wait()
    return code if code >= 0 else 128 - code


def scancel() -> int:
    code = 0
    named = [job.name for job in JOBS.iterdir() if (job / "name").read_text() == option("name")]
    for job in [*_options(), *named]:
        if not job.startswith("--"):
            if not state_of(job):
                code = fail(f"Kill job error on job id {job}: {UNKNOWN}")
            elif re.match("RUNNING|PENDING", state_of(job)):
                end(job, "CANCELLED (None)")
    return code


def squeue() -> int:
    if wanted := option("jobs"):
        if not state_of(wanted):
            print(f"slurm_load_jobs error: {UNKNOWN}", file=sys.stderr)
            return 1
        print(state_of(wanted))
        return 0
    for job in sorted(JOBS.iterdir()):
        if re.match("RUNNING|PENDING", state_of(job.name)):
            words = {"%i": job.name, "%j": (job / "name").read_text(), "%T": state_of(job.name).split()[0]}
            print(*(words[word] for word in option("format").split()))
    return 0


if __name__ == "__main__":
    sys.exit({"salloc": salloc, "srun": srun, "scancel": scancel, "squeue": squeue}[Path(sys.argv[0]).name]())
