"""What docs/backends/ssh.md takes for granted: a file, and a host that lets us in, here this machine by SSH."""

import os
from pathlib import Path

from targets.ssh_server import SSHServer

Path("server").mkdir()
Path("notes.txt").write_text("remember\n")
server = SSHServer(Path("server").resolve())
server.start()
stack.callback(server.stop)  # noqa: F821
os.environ |= {f"TERMINAL_{name.upper()}": str(value) for name, value in server.over.items() if name.startswith("ssh_")}
replaced["build7"] = "127.0.0.1"  # noqa: F821
