"""What docs/targets.md takes for granted: a container that runs already, and a folder with a Dockerfile."""

from pathlib import Path

import docker
from targets.engines import PYTHON_IMAGE

engine = docker.from_env()
stack.callback(engine.close)  # noqa: F821
container = engine.containers.run(PYTHON_IMAGE, ["sleep", "10000"], detach=True)
stack.callback(container.remove, force=True)  # noqa: F821
Path("images/tests").mkdir(parents=True)
Path("images/tests/Dockerfile").write_text(f"FROM {PYTHON_IMAGE}\nENV OF_DOCS=1\n")
replaced["web-1"] = container.name  # noqa: F821
