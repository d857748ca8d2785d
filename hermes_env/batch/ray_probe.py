"""What answers at the address of a Ray cluster, looked at by a process of its own.

Where it is no cluster, or one that asks for a token, Ray's library tries for a minute, says so on stderr each second,
and in the end may end the whole process.
"""

from __future__ import annotations

import os
import subprocess
import sys

from environments.errors import EnvironmentStartError

PATIENCE = 20.0
"""Seconds for a Python that imports Ray and connects once, which takes half of one."""
_CONNECT = "import sys; from ray._raylet import GcsClient; GcsClient(address=sys.argv[1])"


def asks_for_token(address: str) -> bool:
    """Return whether the cluster at an address wants to see a token.

    Args:
        address: HOST:PORT.

    Raises:
        EnvironmentStartError: What answers there is no head of a Ray cluster.
    """
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-c", _CONNECT, address],
            env={**os.environ, "RAY_AUTH_MODE": "disabled"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise _no_head(address, "it does not speak as one") from error
    if done.returncode == 0:
        return False
    if "Unauthenticated" in done.stderr:
        return True
    raise _no_head(address, (done.stderr.strip().splitlines() or ["it said nothing"])[-1])


def _no_head(address: str, why: str) -> EnvironmentStartError:
    return EnvironmentStartError(
        f"what answers at {address!r} is not the head of a Ray cluster: {why}; give the address that nodes were "
        "started with, by `ray start --address`"
    )
