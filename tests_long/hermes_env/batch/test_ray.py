"""Batches on a real Ray cluster of two nodes. A node is killed during some."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from targets.engines import PYTHON_IMAGE, require_docker
from targets.processes import all_gone, processes_with
from targets.ray_cluster import RayCluster, ray_cluster

from environments import EnvironmentStartError
from environments.conformance.check import wait_until
from hermes_env.batch import read_results
from hermes_env.batch.ray import cluster as ray_clusters

LONG = 100
"""Seconds for work of a few seconds, on a loaded machine."""

pytestmark = [pytest.mark.timeout(300), pytest.mark.alone("garbage")]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RayCluster]:
    with ray_cluster(tmp_path_factory.mktemp("ray")) as found:
        yield found


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "results.jsonl"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """The file to which each task writes its id and its node."""
    return tmp_path / "log"


@pytest.fixture
def start(
    cluster: RayCluster, start_hermes_env: Callable[..., subprocess.Popen[str]], tmp_path: Path, out: Path, log: Path
):
    """Start a batch of commands by id. Each command is logged when it begins."""

    def start(commands: dict[str, str], *words: str) -> subprocess.Popen[str]:
        file = tmp_path / "tasks.jsonl"
        lines = [
            {"id": name, "command": f"echo {name} $RAY_RAYLET_PID >> {log}; {command}"}
            for name, command in commands.items()
        ]
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
        ray = ("--engine", "ray", "--address", cluster.address)
        return start_hermes_env("batch", str(file), "--out", str(out), *ray, "-b", "local", *words, text=True)

    return start


def begun_tasks(log: Path) -> list[tuple[str, str]]:
    """Return the id and the node of each begun task; a retried task appears twice."""
    return [tuple(line.split()) for line in log.read_text().splitlines()] if log.exists() else []  # type: ignore[misc]


def statuses(out: Path) -> dict[str, str]:
    return {result.id: result.status for result in read_results(out)} if out.exists() else {}


def test_all_tasks_run_once_on_both_nodes_with_what_the_driver_passes_through(
    cluster: RayCluster, start, out: Path, log: Path, variables: dict[str, str]
) -> None:
    variables["BATCH_TOKEN"] = secret = "unlikely-4c1d9a"
    commands = {f"{count}": "echo $BATCH_TOKEN" for count in range(24)}
    process = start(commands, "--workers", "6", "--set", 'env_passthrough=["BATCH_TOKEN"]')
    said = process.communicate(timeout=LONG)
    assert process.returncode == 0, said
    assert said[0] == ""
    *progress, ended = said[1].splitlines()
    assert ended.startswith("hermes-env: 24 success in ")
    assert all(line.startswith("hermes-env: ") and " of 24 done" in line for line in progress), "something of Ray's"
    assert Counter(name for name, _ in begun_tasks(log)) == Counter(commands.keys())
    assert len({node for _, node in begun_tasks(log)}) == 2
    assert {result.output for result in read_results(out)} == {f"{secret}\n"}
    logs = [path for path in cluster.session.rglob("*") if path.is_file()]
    assert logs and not [path for path in logs if secret.encode() in path.read_bytes()]


def test_tasks_of_a_node_that_is_killed_are_lost_and_none_runs_twice(
    cluster: RayCluster, start, out: Path, log: Path, nap: str, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    waiting = {f"{count}": f"while ! [ -e {go} ]; do : {nap}; sleep 0.1; done" for count in range(4)}
    commands = {**waiting, **{f"{count}": "true" for count in range(4, 20)}}
    process = start(commands, "--workers", "4")
    assert wait_until(lambda: len(begun_tasks(log)) == 4, LONG)
    on_second = {name for name, node in begun_tasks(log) if node == cluster.second}
    assert 1 <= len(on_second) <= 3
    cluster.kill_second_node()
    try:
        assert wait_until(lambda: statuses(out).keys() == on_second, LONG)
        go.touch()
        said = process.communicate(timeout=LONG)
    finally:
        cluster.add_second_node()
    assert process.returncode == 1, said
    assert statuses(out).keys() == commands.keys()
    assert len(out.read_text().splitlines()) == len(commands)  # each has one result
    assert {name for name, status in statuses(out).items() if status == "lost"} == on_second
    assert Counter(statuses(out).values())["success"] == len(commands) - len(on_second)
    assert set(Counter(name for name, _ in begun_tasks(log)).values()) == {1}
    assert said[0] == ""
    assert all(line.startswith("hermes-env: ") for line in said[1].splitlines())  # without Ray's own messages


def test_tasks_of_a_node_that_is_killed_run_elsewhere_where_that_is_asked_for(
    cluster: RayCluster, start, out: Path, log: Path, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    commands = {f"{count}": f"while ! [ -e {go} ]; do sleep 0.1; done" for count in range(4)}
    process = start(commands, "--workers", "4", "--retry", "always")
    assert wait_until(lambda: len(begun_tasks(log)) == 4, LONG)
    on_second = {name for name, node in begun_tasks(log) if node == cluster.second}
    cluster.kill_second_node()
    try:
        assert wait_until(lambda: len(begun_tasks(log)) == 4 + len(on_second), LONG)
        go.touch()
        said = process.communicate(timeout=LONG)
    finally:
        cluster.add_second_node()
    assert process.returncode == 0, said
    assert statuses(out) == dict.fromkeys(commands, "success")


def test_a_signal_ends_what_runs_on_all_nodes(start, out: Path, log: Path, nap: str) -> None:
    process = start({f"{count}": f"sleep {nap}" for count in range(6)}, "--workers", "4")
    assert wait_until(lambda: len(begun_tasks(log)) == 4, LONG)
    assert len({node for _, node in begun_tasks(log)}) == 2
    process.send_signal(signal.SIGTERM)  # Ray has a handler of its own for TERM, and none for Ctrl-C
    said = process.communicate(timeout=LONG)
    assert process.returncode == 130, said
    assert all(line.startswith("hermes-env: ") for line in said[1].splitlines()), said
    assert statuses(out) == {name: "interrupted" for name, _ in begun_tasks(log)}
    assert all_gone(nap)


def test_what_a_driver_that_is_killed_leaves_on_nodes_is_removed(start, out: Path, log: Path, nap: str) -> None:
    engine = require_docker()
    task = f"ray-{nap.replace('.', '-')}"

    def containers() -> int:
        found = engine.containers.list(ignore_removed=True, filters={"label": "hermes-environments.task"})
        return sum(each.labels["hermes-environments.task"].startswith(task) for each in found)

    try:
        settings = ("--set", f"image={PYTHON_IMAGE}", "--set", f"task_id={task}")
        process = start({"1": f"sleep {nap}", "2": f"sleep {nap}"}, "--workers", "2", "-b", "docker", *settings)
        assert wait_until(lambda: len(processes_with(nap)) >= 2, LONG)
        assert containers() == 2
        process.kill()
        process.communicate()
        assert wait_until(lambda: containers() == 0, LONG)
    finally:
        engine.close()
    assert statuses(out) == {}


def test_a_cluster_that_is_found_is_shown_a_token_only_where_it_asks_for_one(
    cluster: RayCluster, start, out: Path, variables: dict[str, str], tmp_path: Path
) -> None:
    token = tmp_path / ".ray" / "auth_token"
    token.parent.mkdir()
    token.write_text("0" * 64)  # as left by a Ray that was started with its defaults
    variables["HOME"], variables["RAY_ADDRESS"] = str(tmp_path), cluster.address
    process = start({"1": "true"}, "--address", "auto")
    said = process.communicate(timeout=LONG)
    assert process.returncode == 0, said
    assert statuses(out) == {"1": "success"}


def test_a_ray_of_the_batchs_own_listens_here_alone_and_takes_all_with_it(
    hermes_env, tmp_path: Path, out: Path
) -> None:
    head = "$(tr '\\0' '\\n' < /proc/$RAY_RAYLET_PID/cmdline | sed -n 's/^--gcs-address=//p')"
    probe = (
        "import sys; from hermes_env.batch.ray import cluster as c; print(sys.argv[1], c.asks_for_token(sys.argv[1]))"
    )
    folder = "tr '\\0' '\\n' < /proc/$RAY_RAYLET_PID/cmdline | sed -n 's/^--session_dir=//p'"
    command = (
        f'"{sys.executable}" -c "{probe}" "{head}"; {folder}; echo "[$OMP_NUM_THREADS$PYTHONBREAKPOINT$RAY_AUTH_TOKEN]"'
    )
    tasks = tmp_path / "tasks.jsonl"
    tasks.write_text(json.dumps({"id": "1", "command": command}) + "\n")
    done = hermes_env("batch", str(tasks), "--out", str(out), "--engine", "ray", "-b", "local")
    assert done.returncode == 0, done
    (result,) = read_results(out)
    (address, is_safe), session, seen = [line.split() for line in result.output.splitlines()]
    assert address.startswith("127.0.0.1:")
    assert is_safe == "True"
    assert seen == ["[]"]
    assert not (tmp_path / ".ray").exists()  # each later head would require a token from there
    assert session and not Path(session[0]).exists()


def test_another_server_at_the_address_of_a_cluster_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_clusters, "PROBED_IN", 1)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(EnvironmentStartError, match=f"the server at '{address}' is not the head of a Ray cluster"):
            ray_clusters.asks_for_token(address)


def test_an_address_without_a_cluster_is_an_error(hermes_env, tmp_path: Path, out: Path) -> None:
    tasks = tmp_path / "tasks.jsonl"
    tasks.write_text('{"id": "1", "command": "true"}\n')
    for address, told in {
        "127.0.0.1:1": "the Ray cluster at '127.0.0.1:1' does not answer",
        "nonsense": "the address of a Ray cluster is 'nonsense'; give the HOST:PORT of its head",
        "ray://127.0.0.1:1": "the address of a Ray cluster is 'ray://127.0.0.1:1'; give the HOST:PORT of its head",
    }.items():
        done = hermes_env(
            "batch", str(tasks), "--out", str(out), "--engine", "ray", "--address", address, "-b", "local"
        )
        assert done.returncode == (125 if "does not answer" in told else 2)
        assert told in done.stderr
