"""Images, and a cluster's login node, for docs/backends/singularity.md: this machine, by SSH."""

import os
from pathlib import Path

from targets.engines import STATE
from targets.ssh_server import SSHServer

Path("server").mkdir()
server = SSHServer(Path("server").resolve())
server.start()
stack.callback(server.stop)  # noqa: F821
os.environ |= {f"TERMINAL_{name.upper()}": str(value) for name, value in server.over.items() if name.startswith("ssh_")}
replaced |= {  # noqa: F821
    "login.cluster": "127.0.0.1",
    "docker://debian:12": str(STATE / "e2e-python.sif"),
    "~/images/tools.sif": str(STATE / "e2e-python.sandbox"),
}
