"""`run_batch`: its arguments, and the parts of a batch brought together."""

from __future__ import annotations

import math
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future, wait
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from environments.cancellation import ended_in_scope
from environments.errors import CallCancelledError
from environments.inventory import collect_garbage
from environments.options import check_count, check_seconds
from hermes_env.batch.arguments import (
    Retry,
    check_calls,
    check_interrupt,
    checked_mapping,
    checked_out,
    checked_retry,
    checked_work,
)
from hermes_env.batch.driver import Driver
from hermes_env.batch.engine import Engine, Plan, Settings, Work, make_engine
from hermes_env.batch.journal import Journal
from hermes_env.batch.kinds import Kinds
from hermes_env.batch.limits import Waiting
from hermes_env.batch.memory_journal import MemoryJournal
from hermes_env.batch.result import Result, Status
from hermes_env.batch.source import Source, Tasks
from hermes_env.batch.summary import BatchProgress, Summary, counted
from hermes_env.batch.terms import Terms

_LOOK = 0.1
"""Seconds between looks whether the batch is to be interrupted."""


def run_batch(
    tasks: Tasks,
    settings: Settings = None,
    work: Work | None = None,
    workers: int = 8,
    engine: str | Callable[[Plan], Engine] = "threads",
    *,
    out: str | os.PathLike[str] | None = None,
    retry: Retry | Collection[Status] = "never",
    budget: float | None = None,
    timeout: float | None = None,
    uses: int = 1,
    limits: Mapping[str, int] | None = None,
    progress: Callable[[BatchProgress], object] | None = None,
    on_result: Callable[[Result], object] | None = None,
    interrupt: threading.Event | None = None,
    address: str | None = None,
    resources: Mapping[str, float | str] | None = None,
) -> Summary:
    """Run many tasks, some at once, each in an environment, and write down what comes of each.

    With `out`, a run that was ended at any moment, also by `kill -9`, is gone on with by the same call: tasks with a
    result are passed over. None that may have begun runs twice, unless `retry` asks for it. Ctrl-C ends the tasks that
    run, cleans up and is then raised; a second one is raised at once.

    Args:
        tasks: The path of a file with a JSON object a line, `-` for standard input, or `Task` objects or mappings, as
            many as there may be. See docs/batch.md for the fields.
        settings: The environments: a backend's name, what `load_settings` returns, or arguments of
            `create_environment` by name, with `backend`. None is what is configured. A task's own go over them.
        work: Python code that works on a task, called as `work(env, task)` in place of the task's command or script.
            It returns text, a mapping of fields of the result, or what `execute` or `execute_code` returns; it may be
            an `async def`.
        workers: How many tasks run at once at most.
        engine: `"threads"` of this process, or `"ray"`; or what makes an engine of one's own of a `Plan`.
        out: The file that results are added to, one JSON object a line. Without it the summary has them, unless
            `on_result` takes them.
        retry: Which tasks run again that have been run: `"never"`; `"always"`, all whose end is not known or that were
            interrupted; or the statuses of results to be replaced. With `"always"` or `"lost"`, a task that is lost
            while the batch runs is tried again, too.
        budget: Seconds for the whole. No task begins then any more, and those that run are interrupted.
        timeout: Seconds that a task may take that says nothing of it, without the start of its environment.
        uses: How many tasks one environment is used for, one after the other, see `Pool`.
        limits: How many tasks run at once in a place, as `{"docker": 24, "ssh:host": 4}`.
        progress: Told how far the batch is, ten times a second at most.
        on_result: Told each result, once it is written down. Both are called in one thread that all else waits for;
            what they raise is logged and stops nothing.
        interrupt: Ends the batch when it is set, as Ctrl-C does; the summary is returned then.
        address: Where a cluster is, see docs/batch.md.
        resources: What an environment takes of a cluster, by name.

    Returns:
        How many tasks ended in which way, and why the batch ended before the end if it did.

    Raises:
        TaskError: A task is not in order. Nothing has run, unless the tasks come one after the other.
        SettingsError: The settings are not in order, or there is no such engine.
        MissingExtraError: The backend or the engine needs a library that is not installed.
        EnvironmentStartError: The batch was given up, as no environment starts.
        TerminalError: The file of results is another program's, another run has it, or it cannot be written.
        TypeError: An argument is of a wrong type.
        ValueError: An argument has a value that is not allowed.
        KeyboardInterrupt: The batch was interrupted by Ctrl-C.
    """
    statuses, file = checked_retry(retry), checked_out(out)
    check_count("workers", workers)
    check_calls(progress=progress, on_result=on_result)
    check_interrupt(interrupt)
    most, taken = checked_mapping("limits", limits), checked_mapping("resources", resources)
    ends = math.inf if budget is None else check_seconds("budget", budget)
    limit = None if timeout is None else check_seconds("timeout", timeout)
    code = None if work is None else checked_work(work)
    plan = Plan(workers, settings, code, limit, check_count("uses", uses), address, taken)
    return _Batch(tasks, plan, engine, file, statuses, ends, most, progress, on_result).run(interrupt)


@dataclass(frozen=True, slots=True)
class _Batch:
    """What `run_batch` was asked for, with arguments that are in order."""

    tasks: Tasks
    plan: Plan
    engine: str | Callable[[Plan], Engine]
    out: Path | None
    statuses: frozenset[Status]
    """Those of tasks that run again."""
    budget: float
    limits: Mapping[str, int]
    progress: Callable[[BatchProgress], object] | None
    on_result: Callable[[Result], object] | None

    def run(self, interrupt: threading.Event | None) -> Summary:
        """Bring the parts of the batch together, and run it to its end."""
        began = time.monotonic()
        plan, kinds = self.plan, Kinds(self.plan.settings)
        with ExitStack() as stack:
            is_unwanted = interrupt.is_set if interrupt else bool
            source = Source(self.tasks, kinds, has_work=plan.work is not None, is_unwanted=is_unwanted)
            stack.callback(source.close)
            if source.is_cut_off:
                return Summary({}, left=None, seconds=time.monotonic() - began, stopped="interrupted", out=self.out)
            waiting = Waiting(self.limits)
            runs_on = make_engine(self.engine, plan)
            stack.callback(runs_on.close)
            journal = MemoryJournal(keeps=self.on_result is None) if self.out is None else Journal(self.out)
            stack.callback(journal.close)
            if journal.follows_a_kill:
                with suppress(CallCancelledError):  # the driver ends by that, too
                    collect_garbage(kinds.backends)
            journal.resume(self.statuses, source.ids)
            earlier = Counter(journal.done[name] for name in source.ids or () if name in journal.done)
            others = 0 if source.ids is None else len(journal.done) - earlier.total()
            total = None if source.total is None else source.total - earlier.total()
            terms = Terms(plan.workers, self.budget, "lost" in self.statuses, total, self.on_result, self.progress)
            driver = Driver(source, journal, lambda task: kinds.of(task).places, waiting, runs_on, terms)
            _run(driver, interrupt, stack)
            left = None if total is None else max(0, total - driver.counts.total())
        return Summary(
            counted(driver.counts),
            counted(driver.passed_over if source.ids is None else earlier),
            others,
            0 if left is None and driver.has_seen_all else left,
            time.monotonic() - began,
            driver.stopped,
            self.out,
            tuple(journal.results),
        )


def _run(driver: Driver, interrupt: threading.Event | None, stack: ExitStack) -> None:
    """Run a driver in a thread of its own, so that Ctrl-C finds this one waiting and holding nothing.

    Args:
        driver: What is run.
        interrupt: Interrupts it when it is set.
        stack: What is closed behind it, unless a second Ctrl-C comes.

    Raises what the driver does, or KeyboardInterrupt.
    """
    ended: Future[None] = Future()

    def work() -> None:
        try:
            driver.run()
        except BaseException as error:
            ended.set_exception(error)
        else:
            ended.set_result(None)

    is_told = has_interrupted = False
    with ended_in_scope(driver.interrupt):
        if interrupt and interrupt.is_set():  # before any task begins
            is_told = True
            driver.interrupt()
        threading.Thread(target=work, name="hermes-batch", daemon=True).start()
        while not ended.done():
            try:
                wait([ended], timeout=_LOOK)
                if interrupt and interrupt.is_set() and not is_told:
                    is_told = True
                    driver.interrupt()
            except KeyboardInterrupt:
                if has_interrupted:
                    stack.pop_all()  # nothing more is waited for
                    raise
                has_interrupted = True
                driver.interrupt()
    ended.result()
    if has_interrupted:
        raise KeyboardInterrupt
