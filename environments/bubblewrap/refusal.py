"""Finding bubblewrap, and what is said where it cannot be had."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from environments.errors import EnvironmentStartError, TerminalError, UnsupportedError
from environments.bubblewrap.paths import SYSTEM, is_within, real

TRIAL_LIMIT = 30.0
_NONE = "backend 'local' can have no sandbox (local_sandbox) here"
_WITHOUT = "TERMINAL_LOCAL_SANDBOX=none runs commands without walls"
_OF_THE_KERNEL = ("namespace", "uid map", "gid map", "operation not permitted")
"""Words of bubblewrap where the kernel does not let it do what it has to, and not where a path is not there."""


def find_program(writable: Sequence[Path] = ()) -> str:
    """Return the path of bubblewrap.

    Args:
        writable: Directories that it is not taken from, as a script may have put it there.

    Raises:
        UnsupportedError: It is not installed.
    """
    named = [Path(path) for path in os.environ.get("PATH", os.defpath).split(os.pathsep)]
    safe = [str(path) for path in named if path.is_absolute() and not is_within(real(path), writable)]
    found = shutil.which("bwrap", path=os.pathsep.join(safe))
    if found is None:
        raise UnsupportedError(f"{_NONE}: there is no `bwrap` on PATH; install the package bubblewrap. {_WITHOUT}")
    return found


def start_error(said: bytes) -> TerminalError:
    """Return what to raise for a sandbox that did not come up.

    Args:
        said: What bubblewrap, or the first process, printed.
    """
    lines = said.decode("utf-8", "replace").strip().splitlines()
    why = lines[-1].removeprefix("bwrap: ") if lines else "it gave no reason"
    if any(word in why.lower() for word in _OF_THE_KERNEL):
        return UnsupportedError(
            f"{_NONE}: {why}. The kernel has to let this user make namespaces: look at `sysctl "
            "kernel.unprivileged_userns_clone user.max_user_namespaces kernel.apparmor_restrict_unprivileged_userns`, "
            f"or in a container at its seccomp profile; or use another backend. {_WITHOUT}"
        )
    return EnvironmentStartError(f"backend 'local' cannot start its sandbox: {why}")


def trial() -> str:
    """Make a sandbox with nothing particular in it, and return bubblewrap's version.

    Raises:
        UnsupportedError: It is not installed, or this machine does not allow it.
        EnvironmentStartError: It fails for another reason.
    """
    program = find_program()
    # Not all of the machine: mounts that come and go meanwhile, such as those of containers, would have it fail.
    shown = [word for path in (*SYSTEM, program) for word in ("--ro-bind-try", str(path), str(path))]
    tried = [program, "--unshare-all", *shown, "--proc", "/proc", "--dev", "/dev", "--", program, "--version"]
    try:
        done = subprocess.run(tried, capture_output=True, timeout=TRIAL_LIMIT, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EnvironmentStartError(f"backend 'local' cannot start {program}: {error}") from error
    if done.returncode != 0:
        raise start_error(done.stderr)
    return done.stdout.decode("utf-8", "replace").strip()
