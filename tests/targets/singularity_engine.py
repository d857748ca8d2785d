"""A Singularity engine whose records, temporary and kept files are in a directory of the test."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from environments.singularity import SingularityEnvironment
from environments.singularity.client import PROGRAMS
from environments.sources import load_settings
from targets.engines import Singularity

NOBODY = 65534


@dataclass(frozen=True)
class SingularityEngine:
    """The engine, its images and its directory."""

    images: Singularity
    state: Path
    """Directory of all files of the engine and of this package."""

    def make(self, **settings: object) -> SingularityEnvironment:
        """Create an environment, by default over the sandbox image."""
        given = {"image": str(self.images.sandbox), "timeout": 60, **settings}
        return SingularityEnvironment(load_settings("singularity", **given))

    def files(self) -> list[Path]:
        """Return the kept files."""
        return [path for path in self.state.rglob("*") if not path.is_dir()]


def engine_in(images: Singularity, state: Path, monkeypatch: pytest.MonkeyPatch) -> SingularityEngine:
    """Set the variables for the directories of the engine and of this package."""
    for variable, folder in (("HERMES_HOME", "hermes"), ("APPTAINER_CONFIGDIR", "engine"), ("TMPDIR", "tmp")):
        (state / folder).mkdir()
        monkeypatch.setenv(variable, str(state / folder))
    monkeypatch.setattr(tempfile, "tempdir", None)  # its cache of TMPDIR
    return SingularityEngine(images, state)


@contextlib.contextmanager
def unprivileged_user(program: Path, monkeypatch: pytest.MonkeyPatch, within: str = "") -> Iterator[None]:
    """Run the engine as an unprivileged user without systemd's limits.

    Args:
        program: The engine.
        monkeypatch: Puts a wrapper of the engine on PATH.
        within: A command in front of the engine.
    """
    for variable in ("XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"):
        monkeypatch.delenv(variable, raising=False)
    if os.geteuid() != 0:
        yield
        return
    # Other users may not enter pytest's directory.
    folder = Path(tempfile.mkdtemp(prefix="hermes-test-", dir="/tmp"))
    try:
        home = folder / "home"
        home.mkdir()
        os.chown(home, NOBODY, NOBODY)
        folder.chmod(0o755)
        wrapper = folder / PROGRAMS[0]
        other = f"setpriv --reuid {NOBODY} --regid {NOBODY} --clear-groups {within}"
        wrapper.write_text(
            f"#!/bin/sh\nexec {other} env HOME={home} TMPDIR={home} APPTAINER_CONFIGDIR={home} "
            f'{shlex.quote(str(program))} "$@"\n'
        )
        wrapper.chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        yield
    finally:
        shutil.rmtree(folder)
