"""A host that lets us in for docs/backends/ssh.md: this machine, by SSH."""

import os
from pathlib import Path

from targets.ssh_server import SSHServer

Path("server").mkdir()
server = SSHServer(Path("server").resolve())
server.start()
stack.callback(server.stop)  # noqa: F821
os.environ |= {f"TERMINAL_{name.upper()}": str(value) for name, value in server.over.items() if name.startswith("ssh_")}
replaced["build7"] = "127.0.0.1"  # noqa: F821
