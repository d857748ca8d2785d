"""The example backend for Slurm, through the same checks as the others, on a stand-in for Slurm's programs."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from standins import slurm

from environments import (
    BaseEnvironment,
    EnvironmentLostError,
    EnvironmentStartError,
    TerminalError,
    UnsupportedError,
    create_environment,
    registry,
)
from environments.conformance import CHECKS, Subject, run_checks
from environments.errors import StartStoppedError
from environments.registry import backend_class

EXAMPLE = Path(__file__).parents[2] / "examples/slurm"
# The entry point that a distribution would have in its pyproject.toml.
ENTRY_POINT = EntryPoint("slurm", "slurm_backend:SlurmEnvironment", "hermes_environments.backends")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The stand-in's folder, with the backend as if installed."""
    folder = tmp_path_factory.mktemp("slurm")
    slurm.install(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(EXAMPLE)
        patch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        patch.setattr(registry, "_entry_points", lambda: {"slurm": ENTRY_POINT})
        yield folder
        states = {job.name: (job / "state").read_text() for job in (folder / "jobs").iterdir()}
        assert [job for job, state in states.items() if state.startswith(("RUNNING", "PENDING"))] == []
    sys.modules.pop("slurm_backend", None)


@pytest.fixture(scope="module")
def subject(cluster: Path) -> Iterator[Subject]:
    def make(**settings: object) -> BaseEnvironment:
        return create_environment("slurm", **settings)

    def cancel(env: BaseEnvironment) -> None:
        subprocess.run(["scancel", env._job], check=True)  # type: ignore[attr-defined]

    made = Subject(make, lose_target=cancel, refused_settings={"container_memory": 512, "container_cpu": 1})
    yield made
    made.close()


# Shells alone fulfil the rest of the contract, on any connection.
@pytest.mark.timeout(900)
def test_the_contract_holds(subject: Subject) -> None:
    groups = ("commands", "ending", "loss", "cleanup")
    assert run_checks(subject, [check for check in CHECKS if check.group in groups]) == {}


def asked(cluster: Path, env: BaseEnvironment) -> list[str]:
    job = env._job  # type: ignore[attr-defined]
    return (cluster / "jobs" / job / "asked").read_text().split("\n")


def test_a_job_is_asked_for_as_the_settings_say(cluster: Path) -> None:
    own = {"partition": "short", "time": "1:00:00", "cpus": 4, "mem": 2048, "extra_args": ["--account=physics"]}
    with create_environment("slurm", **own) as env:
        assert env.execute("echo $SLURM_JOB_ID").output == f"{env._job}\n"
        wanted = {"--partition=short", "--time=1:00:00", "--cpus-per-task=4", "--mem=2048M", "--account=physics"}
        assert wanted < set(asked(cluster, env))


def test_a_person_gets_into_the_job(cluster: Path) -> None:
    with create_environment("slurm") as env:
        env.execute("cd /tmp")
        target = env.target
        assert (target.backend, target.kind, target.host) == ("slurm", "instance", socket.gethostname())
        assert target.id == env.execute("echo $SLURM_JOB_ID").output.strip()
        entered = [word for word in target.enter if word != "--pty"]
        said = subprocess.run([*entered, "-c", "echo $SLURM_JOB_ID"], capture_output=True, text=True, check=True)
        assert said.stdout == f"{target.id}\n"


def test_a_limit_of_the_container_settings_is_refused(cluster: Path) -> None:
    with pytest.raises(UnsupportedError, match="container_memory"):
        create_environment("slurm", container_memory=512)


def test_a_job_that_is_out_of_time_is_a_loss_that_says_so(cluster: Path) -> None:
    with create_environment("slurm") as env:
        env.execute("export A=1; cd /tmp")
        job = env._job
        thread = threading.Thread(target=out_of_time, args=[cluster, job])
        with pytest.raises(EnvironmentLostError, match=rf"its job {job} ended: TIMEOUT \(TimeLimit\)"):
            env.execute("echo begun; sleep 60", on_output=lambda _: thread.start())
        thread.join()
        assert env.execute("echo $A; pwd").output == "1\n/tmp\n"
        assert env._job != job


def out_of_time(cluster: Path, job: str) -> None:
    (cluster / "jobs" / job / "state").write_text("RUNNING (None)")
    ending = "import runpy, sys; slurm = runpy.run_path(sys.argv[0]); slurm['end'](sys.argv[1], 'TIMEOUT (TimeLimit)')"
    code = f"import sys; sys.argv = [{str(cluster / 'squeue')!r}, {job!r}]; {ending}"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_slurms_message_is_in_the_error(cluster: Path) -> None:
    with (
        create_environment("slurm", partition="none") as env,
        pytest.raises(EnvironmentStartError, match="invalid partition specified: none"),
    ):
        env.execute("true")


def test_a_start_that_waits_in_the_queue_can_be_stopped(cluster: Path) -> None:
    (cluster / slurm.FULL).touch()
    waits = threading.Event()

    def note(progress: object) -> None:
        if "waiting in the queue" in str(progress):
            waits.set()

    with create_environment("slurm", on_progress=note) as env:
        thread = threading.Thread(target=lambda: waits.wait(30) and env.interrupt())
        thread.start()
        with pytest.raises(StartStoppedError):
            env.execute("true")
        thread.join()
    (cluster / slurm.FULL).unlink()


def test_a_job_is_listed_with_its_owner_and_cancelled_only_by_force(cluster: Path) -> None:
    with create_environment("slurm") as env:
        env.execute("true")
        (job,) = [job for job in backend_class("slurm").list_targets() if job.id == env.target.id]
        assert (job.kind, job.state, job.use) == ("job", "running", "live")
        assert (job.name, job.pid) == (env.target.name, os.getpid())
        with pytest.raises(TerminalError, match="a process still uses it"):
            job.remove(False)
        job.remove(True)
        assert (cluster / "jobs" / job.id / "state").read_text() == "CANCELLED (None)"


def test_a_job_whose_owner_was_killed_is_collected(cluster: Path) -> None:
    code = (
        "import os, signal; from slurm_backend import SlurmEnvironment; from environments import create_environment\n"
        "env = create_environment('slurm_backend:SlurmEnvironment'); env.execute('true'); print(env._job, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    env = {**os.environ, "PYTHONPATH": str(EXAMPLE)}
    owner = subprocess.Popen([sys.executable, "-c", code], env=env, stdout=subprocess.PIPE, text=True)
    assert owner.stdout
    job = owner.stdout.readline().strip()
    owner.stdout.close()
    owner.wait()
    assert (cluster / "jobs" / job / "state").read_text() == "RUNNING (None)"
    (orphan,) = backend_class("slurm").list_targets()
    assert (orphan.use, orphan.id, orphan.pid) == ("orphan", job, owner.pid)
    assert orphan.collect()
    assert (cluster / "jobs" / job / "state").read_text() == "CANCELLED (None)"
