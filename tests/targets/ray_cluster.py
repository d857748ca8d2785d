"""A Ray cluster of two nodes on this machine, in processes of its own: `python -m targets.ray_cluster`."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SECOND = "second"
"""What the node has that comes and goes, and no other."""
TESTS = Path(__file__).parents[1]


@dataclass
class RayCluster:
    """A cluster whose second node can be killed and come again."""

    process: subprocess.Popen[str]
    address: str

    def kill_second_node(self) -> None:
        self._do("kill")

    def add_second_node(self) -> None:
        self._do("add")

    def _do(self, what: str) -> None:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(f"{what}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n"


@contextlib.contextmanager
def ray_cluster(log: Path) -> Iterator[RayCluster]:
    """Start one, and end it."""
    own = {"RAY_USAGE_STATS_ENABLED": "0", "PYTHONPATH": str(TESTS)}
    with (
        open(log, "w") as stderr,
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
        address = process.stdout.readline().strip()
        assert address, log.read_text()
        try:
            yield RayCluster(process, address)
        finally:
            process.stdin.close()  # which ends it


def main() -> None:
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
    second = cluster.add_node(num_cpus=2, resources={SECOND: 100})
    print(cluster.address, flush=True)
    for line in sys.stdin:
        if line.strip() == "kill":
            cluster.remove_node(second, allow_graceful=False)
        else:
            second = cluster.add_node(num_cpus=2, resources={SECOND: 100})
        print("done", flush=True)
    cluster.shutdown()


if __name__ == "__main__":
    main()
