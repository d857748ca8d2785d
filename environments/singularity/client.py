"""The command line of Apptainer or Singularity: finding it, what it may see of our environment, and running it.

spython's `Client` is not used: that calls `singularity` by name, where an installation may have `apptainer` alone, and
prints why a start or a pull failed instead of returning it. Its runner cannot be ended.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from environments.errors import EnvironmentStartError
from environments.model_view import plain
from environments.singularity.machine import Machine
from environments.singularity.this_machine import THIS_MACHINE

PROGRAMS = ("apptainer", "singularity")
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
    """The program, on the machine that it is on."""

    program: str
    machine: Machine

    @classmethod
    def found(cls, machine: Machine = THIS_MACHINE) -> Client:
        """Return the client of a machine that was reached.

        Raises:
            EnvironmentStartError: None is installed there.
        """
        program = machine.find_program(PROGRAMS)
        if program is None:
            where = f" of {machine.place}, nor on that of a login shell there" if machine.place else ""
            raise EnvironmentStartError(
                f"backend 'singularity': neither apptainer nor singularity is on PATH{where}; install Apptainer "
                "(the package apptainer of the system, or https://apptainer.org/docs/admin/latest/installation.html)"
            )
        return cls(program, machine)

    def run(
        self, *arguments: str, whole_environment: bool = False, on_line: Callable[[str], object] | None = None
    ) -> Outcome:
        """Run the client and wait for its end, or end it when the start that needs it is stopped.

        Args:
            arguments: What follows the program's name; they show in the process list.
            whole_environment: Whether it sees all variables there (here: of this process), as a pull does for its
                credentials and proxies.
            on_line: Told of each line that it prints.
        """
        argv = [self.program, *arguments]
        code, text = self.machine.run(argv, whole_environment=whole_environment, on_line=on_line)
        return Outcome(code == 0, text)

    def exec_argv(self, instance: str) -> list[str]:
        """Return what starts a process in an instance, to be followed by the program and its arguments.

        Warnings, which would come before the process's own words, are silenced. The directory is given because the
        client otherwise looks for our own in the container, and complains.
        """
        return [self.program, "--silent", "exec", "--cleanenv", "--pwd", "/", f"instance://{instance}"]
