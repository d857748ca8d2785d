"""An engine with its records, temporary files and kept files under a directory of the test's own."""

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
class Engine:
    """What tests run on."""

    images: Singularity
    state: Path
    """Where all that the engine and we keep here goes."""

    def make(self, **settings: object) -> SingularityEnvironment:
        """Build an environment over the sandbox, if no other image is given."""
        given = {"image": str(self.images.sandbox), "timeout": 60, **settings}
        return SingularityEnvironment(load_settings("singularity", **given))

    def files(self) -> list[Path]:
        """Return the files that are kept here."""
        return [path for path in self.state.rglob("*") if not path.is_dir()]


def engine_in(images: Singularity, state: Path, monkeypatch: pytest.MonkeyPatch) -> Engine:
    """Have the engine and ourselves keep everything below one directory."""
    for variable, folder in (("HERMES_HOME", "hermes"), ("APPTAINER_CONFIGDIR", "engine"), ("TMPDIR", "tmp")):
        (state / folder).mkdir()
        monkeypatch.setenv(variable, str(state / folder))
    monkeypatch.setattr(tempfile, "tempdir", None)  # where TMPDIR is remembered
    return Engine(images, state)


@contextlib.contextmanager
def unprivileged_user(program: Path, monkeypatch: pytest.MonkeyPatch, within: str = "") -> Iterator[None]:
    """Have the engine run as a user who is not root, and who may not ask systemd for limits.

    Args:
        program: The engine.
        monkeypatch: Puts it on PATH.
        within: A command of that user's that runs it.
    """
    for variable in ("XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"):
        monkeypatch.delenv(variable, raising=False)
    if os.geteuid() != 0:
        yield
        return
    # Not in pytest's directory, which no other user may enter.
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
