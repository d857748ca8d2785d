"""An instance of Singularity or Apptainer."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from benchmarks.engine import Engine, rows_of
from benchmarks.raw_process import PipedProcess
from benchmarks.table import Row
from environments import BaseEnvironment, create_environment, load_settings

IMAGE = Path(os.environ.get("E2E_STATE") or "/var/cache/e2e") / "e2e-python.sandbox"
"""The image that e2e/setup makes, where the settings name none."""


def rows() -> Iterator[Row]:
    """Measure everything in an instance."""
    image = load_settings("singularity").singularity.image or str(IMAGE)
    with create_environment("singularity", image=image) as env:
        env.execute("true")
        name = f"hermes-benchmark-{os.getpid()}"
        _singularity("instance", "start", "--containall", "--no-home", "--writable-tmpfs", image, name)
        try:
            yield from _rows(env, name)
        finally:
            _singularity("instance", "stop", "--force", name)


def _rows(env: BaseEnvironment, name: str) -> Iterator[Row]:
    inside = ("singularity", "--silent", "exec", "--pwd", "/", f"instance://{name}")

    def put(file: Path) -> None:
        with file.open("rb") as content:
            subprocess.run([*inside, "sh", "-c", "cat >/var/tmp/hermes-benchmark"], stdin=content, check=True)

    with PipedProcess([*inside, "bash"]) as bash, PipedProcess([*inside, "cat"]) as cat:
        yield from rows_of(
            Engine(
                name="Singularity",
                env=env,
                bash=bash,
                cat=cat,
                each=lambda words: [*inside, *words],
                each_name="`exec instance://`",
                put=put,
                put_name="`exec instance://` of a cat",
                command_goal=10,
            )
        )


def _singularity(*words: str) -> None:
    subprocess.run(["singularity", "--silent", *words], capture_output=True, check=True, cwd="/")
