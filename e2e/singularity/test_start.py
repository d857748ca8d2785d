"""Starts of an instance, interrupted during the pull of the image or the start in the engine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from targets.processes import processes_with
from targets.silent_server import silent_server
from targets.singularity_engine import SingularityEngine
from targets.stopped_starts import by_cleanup, by_interrupt, our_threads

from environments.conformance.check import wait_until
from environments.progress import Progress


def test_a_pull_from_a_registry_that_does_not_answer_is_stopped(engine: SingularityEngine):
    reported: list[Progress] = []
    with silent_server() as registry:
        uri = f"docker://127.0.0.1:{registry.port}/some/image"
        with engine.make(image=uri) as env:
            env.progress.callback = reported.append
            by_interrupt(env, registry.reached.wait)
            assert wait_until(lambda: not our_threads())
        assert not processes_with(uri)
    assert f"pulling {uri}" in [each.what for each in reported]
    assert not [
        path
        for path in engine.files()
        if path.suffix in (".part", ".sif") or "tmp" in path.relative_to(engine.state).parts
    ]


@pytest.fixture
def blocked_start(engine: SingularityEngine, monkeypatch: pytest.MonkeyPatch, nap: str) -> Path:
    """Install an engine that blocks `instance start` while a file exists; return the file, not empty once blocked."""
    wait, folder = engine.state / "wait", engine.state / "bin"
    wait.touch()
    folder.mkdir()
    script = f'case "$*" in *"instance start"*) [ ! -e {wait} ] || {{ echo >{wait}; sleep {nap}; }};; esac'
    (folder / "apptainer").write_text(f'#!/bin/sh\n{script}\nexec {engine.images.program} "$@"\n')
    (folder / "apptainer").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return wait


def test_an_engine_program_that_blocks_is_ended(engine: SingularityEngine, blocked_start: Path, nap: str):
    with engine.make() as env:
        by_cleanup(env, lambda: wait_until(lambda: blocked_start.stat().st_size > 0))
        assert wait_until(lambda: not our_threads()) and not processes_with(nap)


def test_a_start_that_was_stopped_is_tried_again_by_the_next_command(engine: SingularityEngine, blocked_start: Path):
    with engine.make() as env:
        by_interrupt(env, lambda: wait_until(lambda: blocked_start.stat().st_size > 0))
        blocked_start.unlink()
        assert env.execute("echo works").output == "works\n"
