"""A state machine of a session and its model: commands, faults and losses in any order."""

from __future__ import annotations

import contextlib
import copy
import re
import secrets
import shlex
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from environments import BaseEnvironment
from environments.conformance.check import wait_until
from environments.errors import EnvironmentLostError, TerminalError
from environments.owner import MARKER_VARIABLE
from environments.result import INTERRUPT_EXIT_CODE, TIMEOUT_EXIT_CODE, CommandResult
from targets import local_shells
from targets.per_command_local import PerCommandLocal
from targets.threads import running_threads

VARIABLES = ("HX_A", "HX_B")
FUNCTIONS = ("hx_f", "hx_g")
ALIASES = ("hx_p", "hx_q")
DIRECTORIES = ("one", "two words", "it's", "link")
"""The last is a link to the first, and a different directory for a shell."""
PLAIN_OPTIONS = ("allexport", "errexit", "noclobber", "noglob", "nounset")
BASH_OPTIONS = (*PLAIN_OPTIONS, "pipefail", "posix")
WORDS = ("", "word", "two  words", 'it\'s "$HOME" `x` \\', "line\nbreak", "ümläut*")
LONG = 600
"""Time-out in seconds of commands that end by themselves."""


# The model.


@dataclass
class SessionModel:
    """The expected state of a session."""

    cwd: str
    mask: str
    old_cwd: str | None = None
    variables: dict[str, tuple[str, bool]] = field(default_factory=dict)
    """Values with True for an exported variable."""
    functions: dict[str, str] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    options: set[str] = field(default_factory=set)

    def enter(self, directory: str) -> None:
        self.cwd, self.old_cwd = directory, self.cwd

    def assign(self, name: str, value: str, exported: bool) -> None:
        was = self.variables.get(name, ("", False))[1]
        self.variables[name] = value, was or exported or "allexport" in self.options

    def shell_replaced(self, with_functions: bool) -> None:
        self.variables = {name: pair for name, pair in self.variables.items() if pair[1]}
        if not with_functions:
            self.functions, self.aliases = {}, {}

    def report(self) -> str:
        """Return the output of `REPORT`."""
        values = [self.variables.get(name, ("unset", True)) for name in VARIABLES]
        lines = [self.cwd, *(value for value, _ in values), *(value if out else "unset" for value, out in values)]
        lines += [self.functions.get(name, "none") for name in FUNCTIONS]
        lines += [self.aliases.get(name, "none") for name in ALIASES]
        lines += [self.mask, *(f"set -o {option}" for option in sorted(self.options))]
        return "".join(f"{line}\n" for line in lines)


_VALUES = " ".join(f'"${{{name}-unset}}"' for name in VARIABLES)
_PRINTED = f"printf '%s\\n' {_VALUES}"
REPORT = "\n".join(
    [
        "pwd",
        _PRINTED,
        f"sh -c {shlex.quote(_PRINTED)}",
        *(f"{name} 2>/dev/null || echo none" for name in (*FUNCTIONS, *ALIASES)),
        "umask",
        f"set +o | grep -E '^set -o ({'|'.join(BASH_OPTIONS)})$' | LC_ALL=C sort || :",
    ]
)


# Changes by commands.


@dataclass(frozen=True)
class Cd:
    place: str
    """One of `DIRECTORIES`, or `-`."""

    def text(self, model: SessionModel, root: str) -> str:
        if self.place == "-":
            return "cd - >/dev/null" if model.old_cwd else ":"
        return f"cd {shlex.quote(f'{root}/{self.place}')}"

    def apply(self, model: SessionModel, root: str) -> None:
        if self.place != "-":
            model.enter(f"{root}/{self.place}")
        elif model.old_cwd:
            model.enter(model.old_cwd)


@dataclass(frozen=True)
class Assign:
    name: str
    value: str
    export: bool = False

    def text(self, model: SessionModel, root: str) -> str:
        return f"{'export ' if self.export else ''}{self.name}={shlex.quote(self.value)}"

    def apply(self, model: SessionModel, root: str) -> None:
        model.assign(self.name, self.value, self.export)


@dataclass(frozen=True)
class Define:
    name: str
    word: str
    here: bool = False
    """True if the word is in a here-document: a shell that reports its functions has to print it after the line."""

    def text(self, model: SessionModel, root: str) -> str:
        if self.here:
            return f"{self.name}() {{ cat <<'HX_END'; }}\n{self.word}\nHX_END\n"
        return f"{self.name}() {{ printf '%s\\n' {shlex.quote(self.word)}; }}"

    def apply(self, model: SessionModel, root: str) -> None:
        model.functions[self.name] = self.word


@dataclass(frozen=True)
class Alias:
    name: str
    word: str

    def text(self, model: SessionModel, root: str) -> str:
        printed = f"printf '%s\\n' {shlex.quote(self.word)}"
        return f"alias {self.name}={shlex.quote(printed)}"

    def apply(self, model: SessionModel, root: str) -> None:
        model.aliases[self.name] = self.word


@dataclass(frozen=True)
class Umask:
    mask: str

    def text(self, model: SessionModel, root: str) -> str:
        return f"umask {self.mask}"

    def apply(self, model: SessionModel, root: str) -> None:
        model.mask = self.mask


@dataclass(frozen=True)
class Option:
    name: str
    on: bool = True

    def text(self, model: SessionModel, root: str) -> str:
        if self.name == "posix" and not self.on:
            return "set +o posix; shopt -s expand_aliases"  # bash loses it with posix
        return f"set {'-' if self.on else '+'}o {self.name}"

    def apply(self, model: SessionModel, root: str) -> None:
        if self.on:
            model.options.add(self.name)
        else:
            model.options.discard(self.name)


@dataclass(frozen=True)
class Unset:
    name: str

    def text(self, model: SessionModel, root: str) -> str:
        if self.name in ALIASES:
            return f"unalias {self.name} 2>/dev/null || :"
        return f"unset {'-f' if self.name in FUNCTIONS else '-v'} {self.name}"

    def apply(self, model: SessionModel, root: str) -> None:
        for names in (model.variables, model.functions, model.aliases):
            names.pop(self.name, None)


Change = Cd | Assign | Define | Alias | Umask | Option | Unset

words = st.sampled_from(WORDS)
NO_VARIABLE = (
    st.builds(Cd, st.sampled_from((*DIRECTORIES, "-"))),
    st.builds(Define, st.sampled_from(FUNCTIONS), words, st.booleans()),
    st.builds(Alias, st.sampled_from(ALIASES), words),
    st.builds(Umask, st.sampled_from(("0022", "0077", "0027"))),
    st.builds(Option, st.sampled_from(BASH_OPTIONS), st.booleans()),
    st.builds(Unset, st.sampled_from((*FUNCTIONS, *ALIASES))),
)
ON_VARIABLE = (
    st.builds(Assign, st.sampled_from(VARIABLES), words, st.booleans()),
    st.builds(Unset, st.sampled_from(VARIABLES)),
)
any_change = st.one_of(*NO_VARIABLE, *ON_VARIABLE)
places = st.none() | st.sampled_from(DIRECTORIES)


@dataclass(frozen=True)
class Ending:
    """The end of a command: `return`, `fail` or `exit`."""

    how: str = "return"
    code: int = 0

    @property
    def text(self) -> str:
        return {"return": ":", "fail": f"(exit {self.code})", "exit": f"exit {self.code}"}[self.how]

    def ends_shell(self, model: SessionModel) -> bool:
        return self.how == "exit" or (self.how == "fail" and "errexit" in model.options)


endings = st.just(Ending()) | st.builds(Ending, st.sampled_from(("fail", "exit")), st.sampled_from((1, 3, 124, 130)))


# The machine.


@dataclass(frozen=True)
class SessionTarget:
    """A backend for the session.

    Args:
        make: Makes an environment.
        bash: True if its shell is bash.
        lose: Kills all processes of the target.
    """

    make: Callable[[], BaseEnvironment]
    bash: bool = True
    reports_late: bool = False
    """True if the end of a remote process is reported late. Input sent meanwhile is lost."""
    lose: Callable[[BaseEnvironment], None] | None = None


class RaisedByCallbackError(Exception):
    pass


class SessionMachine(RuleBasedStateMachine):
    def __init__(self, target: SessionTarget) -> None:
        super().__init__()
        self.target = target
        self.rounds = 0
        """Steps since the last cleanup. The minimum keeps cleanups rare."""
        self.threads = running_threads()
        self.begin()

    def begin(self) -> None:
        self.is_over = False
        self.env = self.target.make()
        self.root = f"/tmp/hx-{secrets.token_hex(6)}"
        made = " ".join(shlex.quote(f"{self.root}/{name}") for name in DIRECTORIES[:-1])
        found = self.env.execute_oneshot(f"mkdir -p {made} && ln -s one {self.root}/link && umask", timeout=LONG)
        self.fresh = SessionModel(self.env.cwd, found.output.strip())
        self.model = copy.deepcopy(self.fresh)

    def end(self) -> None:
        self.env.execute_oneshot(f"rm -r {self.root}", timeout=LONG)
        self.env.cleanup()
        self.is_over = True
        assert wait_until(lambda: not marked(self.env)), "cleanup leaves nothing that runs"
        wait_until(lambda: running_threads() <= self.threads)
        assert not running_threads() - self.threads, "nor a thread"
        with pytest.raises(TerminalError):
            self.env.execute("echo no")

    def teardown(self) -> None:
        if self.is_over:  # `end` has failed at a leftover
            return
        try:
            self.look()
        finally:
            self.end()

    @invariant()
    def the_working_directory_is_known(self) -> None:
        self.rounds += 1
        assert self.env.cwd == self.model.cwd

    # The model.

    def shell_replaced(self) -> None:
        self.model.shell_replaced(with_functions=self.target.bash)

    def command_was_ended(self) -> None:
        """Bash leaves an ended command and goes on. Another shell ends."""
        if not self.target.bash:
            self.shell_replaced()

    def path(self, place: str | None) -> str | None:
        return f"{self.root}/{place}" if place else None

    def expect(
        self, result: CommandResult, output: str, exit_code: int = 0, reason: str = "", cwd: str | None = None
    ) -> None:
        found = (result.output, result.exit_code, result.timed_out, result.interrupted, result.cwd)
        expected = (output, exit_code, reason == "timeout", reason == "interrupt", cwd or self.model.cwd)
        assert found == expected, f"{result} is not {expected}"  # pytest rewrites no assertion of this module

    def changed(self, change: Change, place: str | None) -> tuple[str, str]:
        """Apply a change to the model, and return the command's text and last directory."""
        if isinstance(change, Option) and not self.target.bash and change.name not in PLAIN_OPTIONS:
            return ":", self.path(place) or self.model.cwd
        model, where = self.model, (self.model.cwd, self.model.old_cwd)
        if place:
            model.enter(f"{self.root}/{place}")
        text = change.text(model, self.root)
        change.apply(model, self.root)
        cwd = model.cwd
        if place:
            model.cwd, model.old_cwd = where
        return text, cwd

    # Commands that end by themselves.

    @rule()
    def look(self) -> None:
        self.expect(self.env.execute(REPORT, timeout=LONG), self.model.report())

    @rule(change=any_change, ending=endings, place=places)
    def change(self, change: Change, ending: Ending, place: str | None = None) -> None:
        text, cwd = self.changed(change, place)
        result = self.env.execute(f"{text}\n{ending.text}", cwd=self.path(place), timeout=LONG)
        if ending.ends_shell(self.model):
            self.shell_replaced()
        self.expect(result, "", ending.code, cwd=cwd)

    @rule(first=any_change, second=any_change)
    def look_and_change(self, first: Change, second: Change) -> None:
        output = self.model.report()
        texts = [self.changed(change, None)[0] for change in (first, second)]
        self.expect(self.env.execute("\n".join([REPORT, *texts]), timeout=LONG), output)

    @rule(name=st.sampled_from(VARIABLES), value=words, change=st.one_of(*NO_VARIABLE), ending=endings, place=places)
    def run_with_variables(
        self, name: str, value: str, change: Change, ending: Ending, place: str | None = None
    ) -> None:
        text, cwd = self.changed(change, place)
        result = self.env.execute(
            f'printf %s "${name}"; sh -c \'printf %s "${name}"\'\n{text}\n{ending.text}',
            cwd=self.path(place),
            env={name: value},
            timeout=LONG,
        )
        if ending.ends_shell(self.model):
            self.shell_replaced()
        self.expect(result, value * 2, ending.code, cwd=cwd)

    @rule(size=st.sampled_from((0, 1, 5000, 300_000)), end=st.sampled_from(("", "\n", "\x1e", "\0", "ü")))
    def print_much(self, size: int, end: str) -> None:
        form = end.replace("\0", "\\0").replace("\x1e", "\\036")
        result = self.env.execute(f"head -c {size} /dev/zero | tr '\\0' x; printf '{form}'", timeout=LONG)
        self.expect(result, "x" * size + end)

    @rule(text=words)
    def print_apart_what_is_read(self, text: str) -> None:
        result = self.env.execute("cat; echo apart >&2", stdin=text, stderr="separate", timeout=LONG)
        assert result.stderr == "apart\n"
        self.expect(result, text)

    # Beside the session.

    @rule(change=any_change, ending=endings, place=places)
    def run_beside(self, change: Change, ending: Ending, place: str | None = None) -> None:
        cwd = self.path(place) or self.model.cwd
        there = copy.deepcopy(self.fresh)
        there.cwd = cwd
        text = change.text(there, self.root)
        if isinstance(change, Option) and not self.target.bash:
            text = ":"
        result = self.env.execute_oneshot(f"{REPORT}\n{text}\n{ending.text}", cwd=self.path(place), timeout=LONG)
        self.expect(result, there.report(), ending.code, cwd=cwd)

    @rule(stdin=st.sampled_from(("open", "none", "consumed")), code=st.sampled_from((0, 3)))
    def start(self, stdin: str, code: int) -> None:
        process = self.env.start(f"pwd; exit {code}", stdin=stdin)  # type: ignore[arg-type]
        assert process.wait(LONG) == code
        assert process.read() == f"{self.model.cwd}\n"

    @rule()
    def start_and_talk(self) -> None:
        process = self.env.start("read -r word; echo $word; sleep 100")
        process.write("talk\n")
        read: list[str] = []
        assert wait_until(lambda: bool(read.append(process.read()) or "".join(read)))  # type: ignore[func-returns-value]
        process.kill()
        assert "".join(read) == "talk\n"
        assert process.poll() not in (None, 0)

    # Commands that are made to end.

    @rule(seconds=st.sampled_from((0.05, 0.1, 0.2)), place=places)
    def time_out(self, seconds: float, place: str | None = None) -> None:
        result = self.env.execute("echo so far; sleep 100; echo never", cwd=self.path(place), timeout=seconds)
        self.command_was_ended()
        # On a loaded machine the time-out may come before any output.
        assert result.output in ("so far\n", "")
        self.expect(result, result.output, TIMEOUT_EXIT_CODE, "timeout", cwd=result.cwd)
        assert result.cwd == (self.path(place) or self.model.cwd) or not result.output

    @rule(change=any_change, place=places, beside=st.booleans())
    def interrupt(self, change: Change, place: str | None = None, beside: bool = False) -> None:
        text, cwd = self.changed(change, place)
        begun = threading.Event()

        def interrupt() -> None:
            begun.wait(LONG)
            if beside:
                self.env.execute_oneshot(":")
            self.env.interrupt()

        thread = threading.Thread(target=interrupt)
        thread.start()
        result = self.env.execute(
            f"{text}\necho so far; sleep 100; echo never",
            cwd=self.path(place),
            timeout=LONG,
            on_output=lambda _: begun.set(),
        )
        thread.join()
        self.command_was_ended()
        self.expect(result, "so far\n", INTERRUPT_EXIT_CODE, "interrupt", cwd=cwd)

    @rule()
    def interrupt_nothing(self) -> None:
        self.env.interrupt()

    @rule(change=any_change)
    def raise_in_callback(self, change: Change) -> None:
        text, _ = self.changed(change, None)

        def fail(_: str) -> None:
            raise RaisedByCallbackError

        with pytest.raises(RaisedByCallbackError):
            self.env.execute(f"{text}\necho so far; sleep 100; echo never", timeout=LONG, on_output=fail)
        self.command_was_ended()

    @rule()
    def run_again_in_callback(self) -> None:
        with pytest.raises(TerminalError, match="execute_oneshot"):
            self.env.execute("echo so far; sleep 100", timeout=LONG, on_output=lambda _: self.env.execute("cd /"))
        self.command_was_ended()

    @rule()
    def run_again_in_callback_that_takes_no_for_an_answer(self) -> None:
        refused: list[str] = []

        def run_again(text: str) -> None:
            with pytest.raises(TerminalError, match="execute_oneshot"):
                self.env.execute("cd /")
            refused.append(text)

        self.expect(self.env.execute("echo all", timeout=LONG, on_output=run_again), "all\n")
        assert refused == ["all\n"]

    # Faults of the shell between commands.

    @rule(word=st.sampled_from(("noise", "noise >&2")))
    def leave_noise(self, word: str) -> None:
        result = self.env.execute(f"(for i in 1 2 3 4 5; do echo {word}; sleep 0.02; done) &", timeout=LONG)
        assert re.fullmatch("(noise\n)*", result.output)
        self.expect(result, result.output)

    @rule()
    def kill_shell(self) -> None:
        pid = self.env.execute("echo $$", timeout=LONG).output.strip()
        assert pid.isdigit()
        # The shell prints its state report after a command's end, and then blocks in a read. An unreaped one is dead.
        state = f"cut -d ' ' -f 3 /proc/{pid}/stat 2>/dev/null"
        pause = 0.3 if self.target.reports_late else 0
        killed = self.env.execute_oneshot(
            f'until [ "$({state})" = S ]; do :; done; kill -9 {pid}\n'
            f'while s=$({state}); [ "$s" ] && [ "$s" != Z ]; do :; done\nsleep {pause}',
            timeout=LONG,
        )
        assert (killed.output, killed.exit_code) == ("", 0)
        self.shell_replaced()

    @precondition(lambda self: self.target.lose)
    @rule()
    def lose_target(self) -> None:
        assert self.target.lose
        self.env.execute(":", timeout=LONG)  # the state report of the command before has arrived
        self.target.lose(self.env)
        self.shell_replaced()

    @precondition(lambda self: self.rounds >= 10)
    @rule()
    def clean_up_and_begin_anew(self) -> None:
        self.rounds = 0
        self.end()
        self.begin()


def marked(env: BaseEnvironment) -> list[psutil.Process]:
    """Return the processes of an environment. Zombies have no environment variables, and are left out."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if env.id in process.environ().get(MARKER_VARIABLE, ""):  # type: ignore[attr-defined]
                found.append(process)
    return found


def kill_all(env: BaseEnvironment) -> None:
    """Kill all processes of an environment, also shells that are being opened."""

    def nothing_was_left() -> bool:
        found = marked(env)
        for process in found:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGKILL)
        return not found

    assert wait_until(nothing_was_left)


# Backends without an engine.


@contextlib.contextmanager
def local(cwd: Path) -> Iterator[SessionTarget]:
    yield SessionTarget(lambda: local_shells.local(cwd), lose=kill_all)


@contextlib.contextmanager
def without_bash(cwd: Path) -> Iterator[SessionTarget]:
    yield SessionTarget(lambda: local_shells.without_bash(cwd), bash=False, lose=kill_all)


@contextlib.contextmanager
def per_command(cwd: Path) -> Iterator[SessionTarget]:
    def lose(env: BaseEnvironment) -> None:
        assert isinstance(env, PerCommandLocal)
        env.lose()
        with contextlib.suppress(EnvironmentLostError):  # it is unknown there if a command has begun
            env.execute_oneshot(":")

    yield SessionTarget(lambda: local_shells.per_command(cwd), lose=lose)


def run_sessions(target: SessionTarget, sessions: int, steps: int) -> None:
    """Run a number of random sessions."""
    found = settings(
        max_examples=sessions,
        stateful_step_count=steps,
        phases=[Phase.generate],  # shrinking a failure would take minutes
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    run_state_machine_as_test(lambda: SessionMachine(target), settings=found)
