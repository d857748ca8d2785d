"""An instance of Singularity or Apptainer."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from benchmarks.engine import TARGET_FILE, Copying, Engine, Goals, rows_of
from benchmarks.images import singularity_image
from benchmarks.peers.peer import HERMES_AGENT, opened_peers
from benchmarks.raw_process import PipedProcess
from benchmarks.table import Row
from environments import BaseEnvironment, create_environment


def rows() -> Iterator[Row]:
    """Measure all operations in an instance."""
    image = singularity_image()
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
            subprocess.run([*inside, "sh", "-c", f"cat >{TARGET_FILE}"], stdin=content, check=True)

    def get(file: Path) -> None:
        with file.open("wb") as content:
            subprocess.run([*inside, "cat", TARGET_FILE], stdout=content, check=True)

    asked = {HERMES_AGENT: {"place": "singularity", "image": singularity_image()}}
    with (
        opened_peers(asked) as (peers, missing),
        PipedProcess([*inside, "bash"]) as bash,
        PipedProcess([*inside, "cat"]) as cat,
    ):
        yield from rows_of(
            Engine(
                name="Singularity",
                env=env,
                bash=bash,
                cat=cat,
                clients={
                    "`exec instance://`": lambda words: subprocess.run(
                        [*inside, *words], capture_output=True, check=True
                    )
                },
                peers=peers,
                missing=missing,
                goals=Goals(command=3.5, call=1.2),
                copying=Copying(put, get, "`exec instance://` of a cat"),
            )
        )


def _singularity(*words: str) -> None:
    subprocess.run(["singularity", "--silent", *words], capture_output=True, check=True, cwd="/")
