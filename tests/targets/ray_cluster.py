"""A Ray cluster of two nodes on this machine, as a child: `python -m targets.ray_cluster`."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ray._private.node import Node

TESTS = Path(__file__).parents[1]
NODE = {"num_cpus": 2, "object_store_memory": 100_000_000}
QUICK = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 500, "health_check_failure_threshold": 4}
"""Health checks that find a lost node within seconds."""


@dataclass
class RayCluster:
    """A cluster with a second node to kill and to add again."""

    process: subprocess.Popen[str]
    address: str
    session: Path
    """Directory of logs and sockets."""
    second: str
    """RAY_RAYLET_PID of tasks on the second node."""

    def kill_second_node(self) -> None:
        self._do("kill")

    def add_second_node(self) -> None:
        self.second = self._do("add")

    def _do(self, what: str) -> str:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(f"{what}\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()


@contextlib.contextmanager
def ray_cluster(folder: Path) -> Iterator[RayCluster]:
    """Run a cluster for the block.

    Args:
        folder: Directory of the log and of HERMES_HOME.
    """
    own = {"RAY_USAGE_STATS_ENABLED": "0", "PYTHONPATH": str(TESTS), "HERMES_HOME": str(folder / "home")}
    log = folder / "ray.log"
    with (
        log.open("w") as stderr,
        subprocess.Popen(
            [sys.executable, "-m", "targets.ray_cluster"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            env={**os.environ, **own},
        ) as process,
    ):
        assert process.stdin and process.stdout
        said = process.stdout.readline()
        assert said, log.read_text()
        address, session, second = json.loads(said)
        try:
            yield RayCluster(process, address, Path(session), second)
        finally:
            process.stdin.close()  # ends the cluster


def main() -> None:
    from ray.cluster_utils import Cluster

    head = {**NODE, "include_dashboard": False, "_system_config": QUICK}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    second = cluster.add_node(**NODE)
    print(json.dumps([cluster.address, cluster.head_node.get_session_dir_path(), _raylet(second)]), flush=True)
    for line in sys.stdin:
        if line.strip() == "kill":
            cluster.remove_node(second, allow_graceful=False)
            print(flush=True)
        else:
            second = cluster.add_node(**NODE)
            print(_raylet(second), flush=True)
    cluster.shutdown()


def _raylet(node: Node) -> str:
    return str(node.all_processes["raylet"][0].process.pid)


if __name__ == "__main__":
    main()
