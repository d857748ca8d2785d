"""What docs/commands.md takes for granted: a container that knows other users, with files in it."""

from pathlib import Path

from targets.engines import PYTHON_IMAGE

from environments import create_environment

container = stack.enter_context(create_environment("docker", image=PYTHON_IMAGE))  # noqa: F821
container.write_bytes("logo.png", b"\x89PNG")
container.write_bytes("train.py", b"print('trained')")
path = "."
Path("data").mkdir()
replaced['env.execute("make -j4'] = 'env = container; env.execute("make -j4'  # noqa: F821
