"""Finding bubblewrap, and what is said where it cannot be had."""

from __future__ import annotations

import shutil
import subprocess

from environments.errors import EnvironmentStartError, TerminalError, UnsupportedError

TRIAL_LIMIT = 30.0
_NONE = "backend 'local' can have no sandbox (local_sandbox) here"
_WITHOUT = "TERMINAL_LOCAL_SANDBOX=none runs commands without walls"
_OF_THE_KERNEL = ("namespace", "uid map", "gid map", "operation not permitted")
"""Words of bubblewrap where the kernel does not let it do what it has to, and not where a path is not there."""


def find_program() -> str:
    """Return the path of bubblewrap.

    Raises:
        UnsupportedError: It is not installed.
    """
    found = shutil.which("bwrap")
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
    tried = [program, "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--", program]
    try:
        done = subprocess.run([*tried, "--version"], capture_output=True, timeout=TRIAL_LIMIT, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EnvironmentStartError(f"backend 'local' cannot start {program}: {error}") from error
    if done.returncode != 0:
        raise start_error(done.stderr)
    return done.stdout.decode("utf-8", "replace").strip()
