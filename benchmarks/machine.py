"""A description of this machine: cores, memory, kernel and versions, without the host's name."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from collections.abc import Mapping, Sequence

_ENGINES = {
    "Docker": (("docker", "version", "--format", "{{.Server.Version}}"), r"[\d.]+"),
    "OpenSSH": (("ssh", "-V"), r"OpenSSH_([\w.]+)"),
    "Singularity": (("singularity", "--version"), r"[\d.]+\S*"),
}


def machine() -> dict[str, str]:
    """Return the properties of this machine, by name."""
    found = {
        "cores": str(len(os.sched_getaffinity(0))),
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GB",
        "kernel": f"{platform.system()} {re.match(r'[0-9.]*', platform.release())[0].rstrip('.')}",  # type: ignore[index]
        "Python": platform.python_version(),
    }
    versions = {name: _version(*asked) for name, asked in _ENGINES.items()}
    return {**found, **{name: version for name, version in versions.items() if version}}


def machine_text(machine: Mapping[str, str]) -> str:
    """Return the properties as a phrase."""
    return ", ".join(
        f"{value} {name}" if name in {"cores", "memory"} else value if name == "kernel" else f"{name} {value}"
        for name, value in machine.items()
    )


def _version(argv: Sequence[str], pattern: str) -> str:
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    seen = re.search(pattern, done.stdout + done.stderr)
    return seen[seen.lastindex or 0] if seen else ""
