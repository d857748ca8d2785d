"""Environments that have frameworks in them, kept from one run to the next."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from plugs.frameworks import PYTEST, Framework

ROOT = Path(__file__).parents[2]
KEPT = ROOT / ".plugs"
_EXTRAS = "docker,ssh"


class InstallationError(Exception):
    """A framework could not be installed. The message says what pip said."""


def python_with(*frameworks: Framework) -> Path:
    """Return the Python of an environment that has frameworks, what their tests need, and this package.

    It is made once, and again when pyproject.toml or what is to be there has changed. Several frameworks that agree on
    what they need are installed sooner together; pip says so where they do not.

    Raises:
        InstallationError: pip could not install them.
        pytest.skip.Exception: The Python that the first one needs is not on this machine.
    """
    folder = KEPT / "+".join(framework.name for framework in frameworks)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several processes may want it at once
        theirs = [each for framework in frameworks for each in (framework.package, *framework.requirements)]
        wanted = [f"{ROOT}[{_EXTRAS}]", *theirs, *PYTEST]
        made_from = hashlib.sha256((ROOT / "pyproject.toml").read_bytes() + repr(wanted).encode()).hexdigest()
        stamp, python = folder / "made-from", folder / "bin" / "python"
        if not stamp.exists() or stamp.read_text() != made_from:
            stamp.unlink(missing_ok=True)
            _run([_program(frameworks[0]), "-m", "venv", "--without-pip", "--symlinks", str(folder)])
            _install(python, wanted, frameworks[0])
            stamp.write_text(made_from)
    return python


def _program(framework: Framework) -> str:
    found = shutil.which(framework.python) if framework.python else sys.executable
    if not found or subprocess.run([found, "--version"], capture_output=True, check=False).returncode != 0:
        pytest.skip(f"no {framework.python} on PATH, which {framework.version} needs")
    return found


def _install(python: Path, wanted: list[str], framework: Framework) -> None:
    # Most of it is never imported, and need not be compiled.
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-compile"]
    if framework.too_new:
        _run([*pip, "--no-deps", framework.package])
        wanted = [each for each in wanted if each != framework.package] + _requirements(python, framework)
    _run([*pip, "--editable", *wanted])


def _requirements(python: Path, framework: Framework) -> list[str]:
    """Return what an installed framework needs, but for the versions of what is too new."""
    code = "import importlib.metadata as m, sys; print(*m.requires(sys.argv[1]), sep='\\n')"
    needed = _run([str(python), "-c", code, framework.package.partition("==")[0]]).splitlines()
    needed = [line for line in needed if "extra ==" not in line]
    return [next((name for name in framework.too_new if line.startswith(name)), line) for line in needed]


def _run(argv: list[str]) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise InstallationError(f"{' '.join(argv)}: {done.stderr.strip()[-2000:]}")
    return done.stdout
