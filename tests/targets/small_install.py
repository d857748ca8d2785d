"""Installs this package with one extra or none, as users do. The tests' own installation has all extras."""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).parents[2]
KEPT = ROOT / ".venv" / "small-installs"
EXTRAS = ("", "docker", "ssh", "modal", "daytona", "web", "approvals")


def python_with(extra: str) -> Path:
    """Return the Python of a virtual environment with this package and one extra, or none.

    The environment is made once, and again after a change of pyproject.toml.
    """
    folder = KEPT / (extra or "none")
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # against parallel test processes
        stamp, wanted = folder / "made-from", hashlib.sha256((ROOT / "pyproject.toml").read_bytes()).hexdigest()
        python = folder / "bin" / "python"
        if not stamp.exists() or stamp.read_text() != wanted:
            stamp.unlink(missing_ok=True)
            venv.create(folder, clear=False, symlinks=True, with_pip=False)
            what = f"{ROOT}[{extra}]" if extra else str(ROOT)
            pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
            # Most of the files are never imported: compiling takes longer.
            install = [*pip, "--no-compile", "--editable", what]
            subprocess.run(install, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            stamp.write_text(wanted)
    return python


def variables(home: Path) -> dict[str, str]:
    """Return environment variables of a new user, on a machine without a Docker engine."""
    ours = ("TERMINAL_", "PYTHON", "MODAL_", "DAYTONA_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return {**kept, "HERMES_HOME": str(home), "NO_COLOR": "1", "DOCKER_HOST": f"unix://{home}/no.sock"}
