"""The command line of Apptainer or Singularity: finding it, what it may see of our environment, and running it.

spython's `Client` is not used: that calls `singularity` by name, where an installation may have `apptainer` alone, and
prints why a start or a pull failed instead of returning it. Its runner cannot be ended.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from environments.controls import plain
from environments.errors import EnvironmentStartError
from environments.singularity.child import run_child

PROGRAMS = ("apptainer", "singularity")
_KEPT = (
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "TMPDIR",
    "DBUS_SESSION_BUS_ADDRESS",  # by which limits are set without root
    *("XDG_CONFIG_HOME", "XDG_RUNTIME_DIR"),
    *(f"{name}_{what}" for name in ("APPTAINER", "SINGULARITY") for what in ("CONFIGDIR", "CACHEDIR", "TMPDIR")),
)
"""What the client needs to find its own files. The rest of its variables are options, such as binds, that nobody
asked for here, or go into the container."""

_STARTER_SAYS = re.compile(r"ERROR\s*:")
_LEVEL = re.compile(r"^(FATAL|ERROR)\s*:")
_NAMESPACES = (
    "Without root it needs user namespaces, which are off for this user: have them allowed (sysctl "
    "user.max_user_namespaces, kernel.unprivileged_userns_clone or kernel.apparmor_restrict_unprivileged_userns), or "
    "install the package apptainer-suid"
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one run of the client."""

    ok: bool
    text: str
    """What it printed, its standard output first."""

    @property
    def reason(self) -> str:
        """The line that says why it failed."""
        lines = [
            line.strip() for line in plain(self.text).splitlines() if line.strip() and not line.startswith("INFO:")
        ]
        fatal = [line for line in lines if line.startswith("FATAL:")]
        # Its starter is a program of its own, of which it then says no more than that it failed.
        starter = [line for line in lines if _STARTER_SAYS.match(line)] if "executing starter" in "".join(fatal) else []
        return _LEVEL.sub("", (starter or fatal or lines or ["it gave no reason"])[0]).strip()

    @property
    def advice(self) -> str:
        """What helps, as a sentence behind the reason; nothing where that says it, or nobody knows."""
        return f". {_NAMESPACES}" if "user namespace" in self.text else ""


@dataclass(frozen=True, slots=True)
class Client:
    """The program, and the environment that it runs with."""

    program: str
    environment: Mapping[str, str] = field(repr=False)

    @classmethod
    def found(cls) -> Client:
        """Return the client of this machine.

        Raises:
            EnvironmentStartError: None is installed.
        """
        program = next(filter(None, map(shutil.which, PROGRAMS)), None)
        if program is None:
            raise EnvironmentStartError(
                "backend 'singularity': neither apptainer nor singularity is on PATH; install Apptainer "
                "(the package apptainer of your system, or https://apptainer.org/docs/admin/latest/installation.html)"
            )
        environment = {name: os.environ[name] for name in _KEPT if name in os.environ}
        for engine in ("APPTAINER", "SINGULARITY"):
            environment[f"{engine}_NO_EVAL"] = "1"  # a $( ) in a value would be run
        return cls(program, environment)

    def run(
        self, *arguments: str, whole_environment: bool = False, on_line: Callable[[str], object] | None = None
    ) -> Outcome:
        """Run the client and wait for its end, or end it when the start that needs it is stopped.

        Args:
            arguments: What follows the program's name; they show in the process list.
            whole_environment: Whether it sees all of this process's variables, as a pull does for its credentials
                and proxies.
            on_line: Told of each line that it prints.
        """
        environment = {**os.environ} if whole_environment else {**self.environment}
        code, text = run_child([self.program, *arguments], environment, on_line)
        return Outcome(code == 0, text)

    def exec_argv(self, instance: str) -> list[str]:
        """Return what starts a process in an instance, to be followed by the program and its arguments.

        Warnings, which would come before the process's own words, are silenced. The directory is given because the
        client otherwise looks for our own in the container, and complains.
        """
        return [self.program, "--silent", "exec", "--cleanenv", "--pwd", "/", f"instance://{instance}"]
