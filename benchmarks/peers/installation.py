"""Virtual environments with peers, kept from run to run in `.bench/`."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.measure import UnavailableError

ROOT = Path(__file__).parents[2]
KEPT = ROOT / ".bench"
PIP = (sys.executable, "-m", "pip")
_MAX_ERROR = 300
"""The largest number of characters of pip's errors in a message."""


def python_with(name: str, requirements: Sequence[str]) -> Path:
    """Return the Python of a virtual environment with some packages, made on first use.

    Args:
        name: The name of the folder.
        requirements: Requirements for pip.

    Raises:
        UnavailableError: They cannot be installed.
    """
    folder = KEPT / name
    with _made_once(folder, requirements) as missing:
        if missing:
            _run([sys.executable, "-m", "venv", "--without-pip", "--symlinks", str(folder)])
            python = ("--python", str(folder / "bin" / "python"))
            _run([*PIP, *python, "install", "--quiet", *requirements])
    return folder / "bin" / "python"


def folder_with(name: str, requirements: Sequence[str], version: str) -> Path:
    """Return a folder with some packages, for the path of a Python in a container.

    Args:
        name: The name of the folder.
        requirements: Requirements for pip.
        version: The version of the container's Python, such as `3.11`.

    Raises:
        UnavailableError: They cannot be installed.
    """
    folder = KEPT / name
    with _made_once(folder, [*requirements, version]) as missing:
        if missing:
            place = ["--target", str(folder), "--python-version", version, "--only-binary", ":all:"]
            _run([*PIP, "install", "--quiet", *place, *requirements])
            for program in (folder / "bin").iterdir():  # their first line names the Python of pip
                lines = program.read_text().splitlines(keepends=True)
                program.write_text("#!/usr/bin/env python3\n" + "".join(lines[1:]))
    return folder


@contextmanager
def _made_once(folder: Path, wanted: Sequence[str]) -> Iterator[bool]:
    """Lock a folder, and yield True if the packages have to be installed."""
    KEPT.mkdir(exist_ok=True)
    with (KEPT / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stamp = folder / "made-from"
        made_from = hashlib.sha256(repr((sys.executable, *wanted)).encode()).hexdigest()
        if stamp.exists() and stamp.read_text() == made_from:
            yield False
            return
        shutil.rmtree(folder, ignore_errors=True)
        yield True
        stamp.write_text(made_from)


def _run(argv: Sequence[str]) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = " ".join(line for line in done.stderr.splitlines() if "ERROR" in line) or done.stderr
        raise UnavailableError(f"it could not be installed: {said.strip()[:_MAX_ERROR]}")
