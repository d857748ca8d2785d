"""`run_batch`: checks its arguments, and runs a driver with a source, a journal and an engine."""

from __future__ import annotations

import math
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future, wait
from contextlib import ExitStack, suppress

from environments.cancellation import on_scope_cancel
from environments.errors import CallCancelledError
from environments.inventory import collect_garbage
from environments.options import check_count, check_seconds
from hermes_env.batch.driver import Driver, Terms
from hermes_env.batch.engine import Engine, Plan, Settings, Work, make_engine
from hermes_env.batch.journal import Journal, MemoryJournal
from hermes_env.batch.options import (
    Retry,
    check_calls,
    check_interrupt,
    checked_mapping,
    checked_out,
    checked_retry,
    checked_settings,
    checked_work,
)
from hermes_env.batch.progress import BatchProgress, Summary, counted
from hermes_env.batch.result import Result, Status
from hermes_env.batch.source import Source, Tasks
from hermes_env.batch.task_queue import TaskQueue
from hermes_env.batch.task_types import TaskTypes

_LOOK = 0.1
"""Seconds between looks at whether the batch is to be interrupted."""


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
    **more_settings: object,
) -> Summary:
    """Run many tasks, some at once, each in an environment, and write a result for each.

    With `out`, the same call continues a run that was ended at any moment, also by `kill -9`: tasks with a result are
    passed over. No task that may have begun runs twice, unless `retry` asks for it. Ctrl-C ends the tasks that run,
    cleans up and is then raised; a second one is raised at once.

    Args:
        tasks: The path of a file with a JSON object a line, `-` for standard input, or an iterable of `Task` objects or
            mappings. See docs/many-environments.md for the fields.
        settings: The environments: a backend's name, what `load_settings` returns, or arguments of
            `create_environment` by name, with `backend`. None is what is configured. A task's own go over them.
        work: Python code that works on a task, called as `work(env, task)` in place of the task's command or script.
            It returns text, a mapping of fields of the result, or what `execute` or `execute_code` returns; it may be
            an `async def`.
        workers: The number of tasks that run at once at most.
        engine: `"threads"` runs them in this process, `"ray"` on a cluster; or a function that makes an engine of a
            `Plan`.
        out: The file that results are appended to, one JSON object a line. Without it the summary has them, unless
            `on_result` takes them.
        retry: The tasks to run again: `"never"`; `"always"`, those that are lost or were interrupted; or the statuses
            of results to replace. With `"always"` or `"lost"`, a task that is lost while the batch runs is tried again,
            too.
        budget: Seconds for the batch, from the begin of its first task. Then no further task begins, and those that run
            are interrupted.
        timeout: Time limit in seconds of a task that has none, without the start of its environment.
        uses: The number of tasks that one environment is used for, one after the other, see `Pool`.
        limits: The number of tasks that run at once in a place, as `{"docker": 24, "ssh:host": 4}`.
        progress: Receives the progress, ten times a second at most.
        on_result: Receives each result, once it is written. Both are called in one thread, and the batch waits for
            them. Their exceptions are logged.
        interrupt: Ends the batch when it is set, as Ctrl-C does; the summary is returned then.
        address: The address of a cluster, see docs/many-environments.md.
        resources: Resources of a cluster that an environment takes, by name.
        more_settings: Arguments of `create_environment` by name, such as `image`, over those of `settings`. Its
            `timeout` has to be given in `settings`.

    Returns:
        The number of tasks by status, and the reason of an early end.

    Raises:
        TaskError: A task is wrong. Nothing has run, unless the tasks come from a generator.
        SettingsError: A setting is wrong, or there is no such engine.
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
    given = checked_settings(settings, more_settings)
    plan = Plan(workers, given, code, limit, check_count("uses", uses), address, taken)

    began = time.monotonic()
    types = TaskTypes(plan.settings)
    with ExitStack() as stack:
        is_unwanted = interrupt.is_set if interrupt else bool
        source = Source(tasks, types, has_work=code is not None, is_unwanted=is_unwanted)
        stack.callback(source.close)
        if source.is_cut_off:
            return Summary({}, left=None, seconds=time.monotonic() - began, stopped="interrupted", out=file)
        queue = TaskQueue(most)
        runs_on = make_engine(engine, plan)
        stack.callback(runs_on.close)
        journal = MemoryJournal(keeps=on_result is None) if file is None else Journal(file)
        stack.callback(journal.close)
        if journal.follows_a_kill:
            with suppress(CallCancelledError):  # the driver ends by that, too
                collect_garbage(types.backends)
        journal.resume(statuses, source.ids)
        earlier = Counter(journal.done[name] for name in source.ids or () if name in journal.done)
        others = 0 if source.ids is None else len(journal.done) - earlier.total()
        total = None if source.ids is None else len(source.ids) - earlier.total()
        terms = Terms(workers, ends, "lost" in statuses, total, on_result, progress)
        driver = Driver(source, journal, lambda task: types.of(task).places, queue, runs_on, terms)
        _run(driver, interrupt, stack)
        left = None if total is None else max(0, total - driver.counts.total())
    return Summary(
        counted(driver.counts),
        counted(driver.passed_over if source.ids is None else earlier),
        others,
        0 if left is None and driver.has_seen_all else left,
        time.monotonic() - began,
        driver.stopped,
        file,
        tuple(journal.results),
    )


def _run(driver: Driver, interrupt: threading.Event | None, stack: ExitStack) -> None:
    """Run a driver in its own thread, so that Ctrl-C finds this one waiting and holding nothing.

    Args:
        driver: The driver.
        interrupt: Interrupts it when it is set.
        stack: Closed after it, except after a second Ctrl-C.

    Raises:
        BaseException: What the driver has raised; KeyboardInterrupt after Ctrl-C.
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
    with on_scope_cancel(driver.interrupt):
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
