"""Virtual environments with frameworks, kept from run to run."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from plugs.frameworks import PYTEST, ROOT, Framework, Release

KEPT = ROOT / ".plugs"


class InstallationError(Exception):
    """A framework could not be installed. The message is pip's."""


def python_with(framework: Framework, release: Release) -> tuple[Path, str]:
    """Return the Python of a virtual environment with a framework, and the framework's version.

    The environment also has this package and the packages of the framework's tests. The environment is made on first
    use, and again after a change of pyproject.toml or of the framework's newest release.

    Raises:
        InstallationError: pip could not install the framework.
        pytest.skip.Exception: The required Python is not on this machine.
    """
    KEPT.mkdir(exist_ok=True)
    folder = KEPT / f"{framework.name}-{release}"
    program, python, stamp = program_for(framework), folder / "bin" / "python", folder.with_suffix(".made-from")
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several processes may ask for the environment at once
        version = framework.lower_bound if release == "oldest" else _newest(program, framework)
        beside = framework.oldest_with if release == "oldest" else ()
        package = f"{framework.package}=={version}"
        wanted = [f"{ROOT}[docker,ssh,{framework.name}]", package, *framework.requirements, *beside, *PYTEST]
        made_from = hashlib.sha256((ROOT / "pyproject.toml").read_bytes() + repr(wanted).encode()).hexdigest()
        if not stamp.exists() or stamp.read_text() != made_from:
            stamp.unlink(missing_ok=True)
            _run([program, "-m", "venv", "--clear", "--without-pip", "--symlinks", str(folder)])
            # Most files are never imported, and need not be compiled.
            _run(_pip(python, "--no-compile", "--editable", *wanted))
            stamp.write_text(made_from)
    return python, version


def program_for(framework: Framework) -> str:
    """Return a Python of a framework's required version."""
    if not framework.python:
        return sys.executable
    name = f"python{framework.python}"
    asked = [shutil.which(name) or name, "-c", "import sys; print(sys.executable)"]
    try:  # a Python of pyenv's runs when its version is chosen
        return _run(asked, {**os.environ, "PYENV_VERSION": framework.python}).strip()
    except (InstallationError, FileNotFoundError):
        pytest.skip(f"no {name} on PATH, which {framework.package} needs")


def _pip(python: str | Path, *options: str) -> list[str]:
    return [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", *options]


def _newest(python: str, framework: Framework) -> str:
    """Return the newest release in the index within the bounds of the extra."""
    look = ("--dry-run", "--ignore-installed", "--no-deps", "--report", "-")
    (found,) = json.loads(_run(_pip(python, *look, str(framework.requirement))))["install"]
    version: str = found["metadata"]["version"]
    return version


def _run(argv: list[str], variables: dict[str, str] | None = None) -> str:
    done = subprocess.run(argv, env=variables, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise InstallationError(f"{' '.join(argv)}: {done.stderr.strip()[-2000:]}")
    return done.stdout
