"""An environment with a warm session shell behind a lock, and warm one-shot shells beside it."""

from __future__ import annotations

import contextlib
import math
import os
import shlex
import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath

from environments.base import GRACE, BaseEnvironment, OutputCallback, Process, StderrMode, StdinMode
from environments.cancellation import current_scope
from environments.errors import EnvironmentLostError, TerminalError
from environments.owner import Owner
from environments.result import INTERRUPT_EXIT_CODE, TIMEOUT_EXIT_CODE, Capabilities, CommandResult
from environments.settings import EnvironmentSettings
from environments.shell.call import Call, checked_call
from environments.shell.files import ShellFiles
from environments.shell.output import CommandOutput, UnreadOutput
from environments.shell.process import EXIT_CODE_TIMEOUT, ShellProcess
from environments.shell.process_tree import ProcessTree, Quarry
from environments.shell.running import RunningCommand
from environments.shell.session import Session
from environments.shell.shell import Ended, Request, Shell, Where
from environments.shell.stream import Stream, Terminal
from environments.shell.target_shells import TargetShells
from environments.sink import OutputSink

LONG_COMMAND = 32 * 1024
"""Characters above which a command travels as a file: bash reads its script one byte at a system call."""
MAY_END_SHELL = ("exec", "kill", "trap")
"""Words of commands that can end the shell before it can report its state, which is therefore asked for first."""


_WHERE = {"open": Where.LAST, "none": Where.SUBSHELL, "consumed": Where.ATTACHED}


class PersistentShellEnvironment(BaseEnvironment):
    """Everything but the target: a backend says how to start it, open a stream to it, and stop it."""

    same_machine = False
    """Whether the target shares this machine's files, sockets and processes."""
    max_streams: int | None = None
    """How many streams the target allows at once; None is as many as asked for."""

    def __init__(self, settings: EnvironmentSettings) -> None:
        super().__init__(settings)
        self.id = f"{Owner.this_process().mark}-{os.urandom(4).hex()}"
        self._start_lock = threading.RLock()
        self._started = self._ever_started = self._closed = False
        beside = self.max_streams - 1 if self.max_streams else None
        self._shells = TargetShells(self.id, self.open_stream, self.target_loss, self._lost, beside)
        self._session = Session(self._open_session_shell, settings.cwd, settings.persistent_shell)
        self._running: set[RunningCommand] = set()
        self._processes: set[ShellProcess] = set()
        self._scratch_path: str | None = None
        self._files = ShellFiles(self, settings.env)

    # What a backend answers.

    @abstractmethod
    def start_target(self) -> None:
        """Bring the target up, so that streams can be opened.

        Called before anything else, and again after a loss: then what is left of the old target is to be freed, and
        a new link made, or a new target where the old one is gone.

        Raises:
            EnvironmentStartError: It cannot be brought up.
        """

    @abstractmethod
    def open_stream(self, argv: Sequence[str], terminal: Terminal | None = None) -> Stream:
        """Start a process in the target, see `StreamOpener`."""

    @abstractmethod
    def stop_target(self) -> None:
        """Take the target down and free what it holds here. Called once, also when the target is lost."""

    @property
    def stop_ends_all(self) -> bool:
        """Whether `stop_target` leaves no process and no file, so that `cleanup` need not look for them before."""
        return False

    def target_loss(self) -> str | None:
        """Say why the target is gone, or None while it is there. Asked when a stream ended unexpectedly."""
        return None

    @property
    def enforced_limits(self) -> frozenset[str]:
        """Names of the resource settings that the target enforces."""
        return self.settings_class.of(self.settings).enforces

    # The interface.

    @property
    def capabilities(self) -> Capabilities:
        """What this backend can do here, see `BaseEnvironment`."""
        self.session_variable("PWD")  # which has a shell opened, if there has been none
        return Capabilities(
            persistent_session=self.settings.persistent_shell,
            same_machine=self.same_machine,
            shell=self._shells.dialect.name if self._shells.dialect else "",
            enforced_limits=self.enforced_limits,
        )

    @property
    def busy(self) -> bool:
        """Whether something runs, see `BaseEnvironment`."""
        return bool(self._running) or any(process.running for process in self._processes)

    @property
    def cwd(self) -> str:
        """The session's working directory, see `BaseEnvironment`."""
        return self.session_variable("PWD")

    def session_variable(self, name: str) -> str:
        """Return one of the `WATCHED` variables as the session's last command left it; empty if it is not set."""
        return self._session.variable(name)

    def execute(
        self,
        command: str,
        *,
        cwd: str | None = None,
        timeout: float | None = None,
        stdin: str | bytes | None = None,
        stderr: StderrMode = "merge",
        on_output: OutputCallback | None = None,
    ) -> CommandResult:
        """Run a command in the session, see `BaseEnvironment`."""
        call = self._checked(command, cwd, timeout, stdin, stderr, on_output)
        with self._session.turn() as granted:
            if not granted:
                return self._never_ran()
            shell, marker = self._session.send(self._request(call, Where.MAIN))
            try:
                return self._perform(shell, marker, call, Where.MAIN)
            finally:
                self._session.command_ended(shell, moved_for_one_command=cwd is not None)

    def execute_oneshot(
        self,
        command: str,
        *,
        cwd: str | None = None,
        timeout: float | None = None,
        stdin: str | bytes | None = None,
        stderr: StderrMode = "merge",
        on_output: OutputCallback | None = None,
    ) -> CommandResult:
        """Run a command beside the session, see `BaseEnvironment`."""
        call = self._checked(command, cwd, timeout, stdin, stderr, on_output)
        scope = current_scope()
        if scope and scope.cancelled:
            return self._never_ran()
        request = self._request(call, Where.SUBSHELL)
        with self._shells.sent(request) as (shell, marker):
            return self._perform(shell, marker, call, Where.SUBSHELL)

    def start(
        self,
        command: str,
        *,
        cwd: str | None = None,
        pty: bool = False,
        rows: int = 24,
        columns: int = 80,
        stdin: StdinMode = "open",
        sink: OutputSink | None = None,
        grace: float = GRACE,
    ) -> Process:
        """Start a command in the background, see `BaseEnvironment`."""
        call = self._checked(command, cwd, math.inf)
        sink = sink or UnreadOutput(self.settings.max_output_bytes)
        if pty:
            where, shell = Where.LAST_ON_TERMINAL, self._shells.open_on(Terminal(rows, columns))
            marker = shell.send(self._request(call, where, sink.separate))
            release: Callable[[Shell], object] = Shell.close
        else:
            where, release = _WHERE[stdin], self._shells.pool.give_back
            shell, marker = self._shells.send(self._request(call, where, sink.separate))
        try:
            if where is not Where.SUBSHELL:
                shell.await_begin()
        except BaseException:
            shell.close()
            release(shell)
            raise
        ends_shell = where in (Where.LAST, Where.LAST_ON_TERMINAL)
        quarry = Quarry(shell.marker if ends_shell else marker, shell.dialect, shell.pid, ends_shell=ends_shell)
        process = ShellProcess(shell, RunningCommand(shell, quarry, self.run_control, grace), sink, release)
        self._processes = {process, *(other for other in self._processes if other.running)}
        return process

    def interrupt(self) -> None:
        """End the command `execute` is running, see `BaseEnvironment`."""
        self._session.interrupt()

    def cleanup(self) -> None:
        """End everything, see `BaseEnvironment`."""
        with self._start_lock:
            if self._closed:
                return
            self._closed = True
            if not self._ever_started:
                return
        try:
            with contextlib.suppress(TerminalError):
                self._end_everything()
        finally:
            self._session.close()
            self._shells.pool.close()
            self.stop_target()

    def _end_everything(self) -> None:
        for running in list(self._running):
            running.interrupt()
        for process in self._processes:
            process.kill()
        self._session.close()
        self._shells.pool.close_idle()
        if self.stop_ends_all:
            return
        if self._scratch_path:
            self.run_control(f"rm -rf {shlex.quote(self._scratch_path)}")
        if self._shells.dialect:
            ProcessTree(self.run_control, Quarry(f"{self.id}/", self._shells.dialect)).end(GRACE)

    # The target.

    def _ensure_started(self) -> None:
        with self._start_lock:
            if self._closed:
                raise TerminalError("the environment was cleaned up; create a new one")
            if not self._started:
                self._ever_started = True  # from here on there may be something to stop, also if this fails
                self.start_target()
                self._started = True

    def _lost(self, why: str) -> EnvironmentLostError:
        """Forget all that was in the target, so that the next command starts it anew, and return what to raise."""
        with self._start_lock:
            self._started = False
            self._scratch_path = None
        self._shells.pool.close_idle()
        return EnvironmentLostError(
            f"backend {self.settings.env!r} was lost: {why}. What the command had done by then is done, and it was "
            "not run again; the next command connects anew"
        )

    def _open_session_shell(self, cwd: str | None, restore: str) -> Shell:
        self._ensure_started()
        return self._shells.open(cwd, restore)

    def run_control(self, text: str) -> CommandResult:
        """Run a command of our own: without the limits of `max_streams`, the settings or a cancelled scope.

        Raises:
            EnvironmentLostError: The target did not answer in time.
        """
        return self._shells.run_control(text)

    # One command.

    def _checked(
        self,
        command: str,
        cwd: str | None,
        timeout: float | None,
        stdin: str | bytes | None = None,
        stderr: str = "merge",
        on_output: OutputCallback | None = None,
    ) -> Call:
        limit = self.settings.timeout if timeout is None else timeout
        call = checked_call(command, cwd=cwd, timeout=limit, stdin=stdin, stderr=stderr, on_output=on_output)
        self.touch()
        self._ensure_started()
        return call

    def _never_ran(self) -> CommandResult:
        return CommandResult("", INTERRUPT_EXIT_CODE, interrupted=True, cwd=self.cwd)

    def _request(self, call: Call, where: Where, separate: bool | None = None) -> Request:
        """Make the request for a call; what it needs as a file is put into the target."""
        long = len(call.command) > LONG_COMMAND
        return Request(
            "" if long else call.command,
            where,
            cwd=call.cwd if where is Where.MAIN else call.cwd or self.cwd,
            cwd_required=call.cwd is not None,
            stdin_file=self._put_scratch(call.stdin) if call.stdin else None,
            command_file=self._put_scratch(call.command.encode("utf-8", "surrogateescape")) if long else None,
            separate=call.separate if separate is None else separate,
            checkpoint=where is Where.MAIN and any(word in call.command for word in MAY_END_SHELL),
        )

    def run_into(self, command: str, sink: OutputSink) -> int:
        """Run a command beside the session, without a limit of time or of output, and return its exit code.

        Raises:
            EnvironmentLostError: The target went away while it ran.
        """
        call = self._checked(command, None, math.inf)
        with self._shells.sent(self._request(call, Where.SUBSHELL, sink.separate)) as (shell, marker):
            return self._run_to_end(shell, marker, call, Where.SUBSHELL, sink)[0]

    def _perform(self, shell: Shell, marker: str, call: Call, where: Where) -> CommandResult:
        began = time.monotonic()
        output = CommandOutput(self.settings.max_output_bytes, call.separate, call.on_output)
        try:
            code, reason = self._run_to_end(shell, marker, call, where, output)
        except EnvironmentLostError as error:
            error.output = output.stdout.text().text
            raise
        output.finish()
        out = output.stdout.text()
        err = output.stderr.text() if output.stderr else None
        return CommandResult(
            out.text,
            code,
            stderr=err.text if err else None,
            timed_out=reason == "timeout",
            interrupted=reason == "interrupt",
            cwd=shell.cwd if where is Where.MAIN else call.cwd or self.cwd,
            duration_seconds=time.monotonic() - began,
            omitted_bytes=out.omitted_bytes + (err.omitted_bytes if err else 0),
            omitted_at=out.omitted_at,
        )

    def _run_to_end(
        self, shell: Shell, marker: str, call: Call, where: Where, output: OutputSink
    ) -> tuple[int, str | None]:
        """Return the exit code of the request that was sent, and the reason if it was we who ended it."""
        quarry = Quarry(marker, shell.dialect, shell.pid, wakes_shell=where is Where.MAIN)
        running = RunningCommand(shell, quarry, self.run_control, GRACE, output.freeze)
        self._running.add(running)
        if where is Where.MAIN:
            self._session.running = running
        try:
            ended = running.read_to_end(output, call.timeout)
        finally:
            if where is Where.MAIN:
                self._session.running = None
            self._running.discard(running)
            self.touch()
        if running.reason and where is Where.MAIN and shell.alive:
            shell.retire()  # the signal that makes it leave the command may reach it after the command
        return self._exit_code(shell, running, ended), running.reason

    def _exit_code(self, shell: Shell, running: RunningCommand, ended: Ended) -> int:
        if running.failure:
            raise self._lost(str(running.failure))
        if running.reason:
            return TIMEOUT_EXIT_CODE if running.reason == "timeout" else INTERRUPT_EXIT_CODE
        if ended.exit_code is not None and (ended.exit_code or shell.alive):
            return ended.exit_code
        code = shell.stream.exit_code(EXIT_CODE_TIMEOUT)
        if ended.exit_code is not None:
            return code or 0  # a shell that a signal ends says 0, as one that exits with 0 does
        loss = self.target_loss()
        if code is None or loss:
            raise self._lost(loss or "the link to it dropped")
        return code

    # Files, through the shell where a backend has nothing better.

    def write_bytes(self, path: str, data: bytes) -> None:
        """Write a file, see `BaseEnvironment`."""
        self._files.write(path, data)

    def read_bytes(self, path: str) -> bytes:
        """Return a file, see `BaseEnvironment`."""
        return self._files.read(path)

    def put_file(self, local: str | Path, remote: str | PurePosixPath) -> None:
        """Copy a file, see `BaseEnvironment`."""
        self._files.put(Path(local), str(remote))

    def get_file(self, remote: str | PurePosixPath, local: str | Path) -> None:
        """Copy a file, see `BaseEnvironment`."""
        self._files.get(str(remote), Path(local))

    def scratch_directory(self) -> str:
        """Return our private directory in the target, made on first use."""
        with self._start_lock:
            if self._scratch_path is None:
                name = f"hermes-{self.id}-{os.urandom(4).hex()}"
                result = self.run_control(f'umask 077; d=${{TMPDIR:-/tmp}}/{name}; mkdir -- "$d" && printf %s "$d"')
                if result.exit_code != 0:
                    raise TerminalError(
                        f"no temporary directory can be made on backend {self.settings.env!r}, which long commands "
                        f"and standard input need: {result.output.strip()}; set TMPDIR there to one that is writable"
                    )
                self._scratch_path = result.output
        return self._scratch_path

    def _put_scratch(self, data: bytes) -> str:
        path = f"{self.scratch_directory()}/{os.urandom(8).hex()}"
        self.write_bytes(path, data)
        return path
