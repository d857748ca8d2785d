"""`run_batch`: checks the arguments, and runs a driver with a task source, a journal and an engine."""

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
from hermes_env.batch.driver import Driver, DriverOptions
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
from hermes_env.batch.source import Tasks, TaskSource
from hermes_env.batch.task_queue import TaskQueue
from hermes_env.batch.task_types import TaskTypes

_POLL = 0.1
"""Seconds between checks for an interrupt."""


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
    """Run many tasks, several at once, each in an environment, and write a result for each.

    With `out`, the same call resumes a run that ended at any moment, also by `kill -9`: tasks with a result are
    skipped. Each begun task runs at most once, unless `retry` allows more. Ctrl-C ends the running tasks, cleans up,
    and is then raised; a second Ctrl-C is raised at once.

    Args:
        tasks: The path of a file with a JSON object a line, `-` for standard input, or an iterable of `Task` objects or
            mappings. See docs/many-environments.md for the fields.
        settings: The environments: a backend's name, settings from `load_settings`, or arguments of
            `create_environment` by name, with `backend`. None is the configuration. A task's own settings override
            these.
        work: Python code for each task, called as `work(env, task)` in place of the task's command or script. Returns
            text, a mapping of fields of the result, or a result of `execute` or `execute_code`. May be an `async def`.
        workers: The largest number of tasks at once.
        engine: `"threads"` runs tasks in this process, `"ray"` on a cluster; or a function that makes an engine from a
            `Plan`.
        out: The file of results, one JSON object a line, appended to. Without `out` and `on_result`, the summary has
            the results.
        retry: The tasks to run again: `"never"`; `"always"` for lost and interrupted tasks; or the statuses of results
            to replace. With `"always"` or `"lost"`, a task lost during the batch is also retried.
        budget: Seconds for the batch, from the begin of the first task. Then no further task begins, and running tasks
            are interrupted.
        timeout: Default time limit of a task in seconds, without the start of the environment.
        uses: The number of tasks per environment, one after the other, see `Pool`.
        limits: The number of tasks at once in a place, such as `{"docker": 24, "ssh:host": 4}`.
        progress: Receives the progress, at most ten times a second.
        on_result: Receives each written result. Both callbacks are called in the same thread, and the batch waits for
            them. Their exceptions are logged.
        interrupt: An event; setting the event ends the batch like Ctrl-C, but the summary is returned.
        address: The address of a cluster, see docs/many-environments.md.
        resources: Cluster resources per environment, by name.
        more_settings: Arguments of `create_environment` by name, such as `image`, which override `settings`. Its
            `timeout` has to be given in `settings`.

    Returns:
        The number of tasks by status, and the reason for an early end.

    Raises:
        TaskError: A task is wrong. No task has run, unless the tasks come from a generator.
        SettingsError: A setting is wrong, or the engine is unknown.
        MissingExtraError: A library of the backend or the engine is not installed.
        EnvironmentStartError: The batch was aborted, as no environment starts.
        TerminalError: The file of results belongs to another program or another run, or cannot be written.
        TypeError: An argument is of a wrong type.
        ValueError: An argument has a forbidden value.
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
        is_interrupted = interrupt.is_set if interrupt else bool
        source = TaskSource(tasks, types, has_work=code is not None, is_interrupted=is_interrupted)
        stack.callback(source.close)
        if source.is_cut_off:
            return Summary({}, left=None, seconds=time.monotonic() - began, stopped="interrupted", out=file)
        queue = TaskQueue(most)
        runs_on = make_engine(engine, plan)
        stack.callback(runs_on.close)
        journal = MemoryJournal(keeps=on_result is None) if file is None else Journal(file)
        stack.callback(journal.close)
        if journal.was_killed:
            with suppress(CallCancelledError):  # the same cancellation ends the driver
                collect_garbage(types.backends)
        journal.resume(statuses, source.ids)
        earlier = Counter(journal.done[name] for name in source.ids or () if name in journal.done)
        others = 0 if source.ids is None else len(journal.done) - earlier.total()
        total = None if source.ids is None else len(source.ids) - earlier.total()
        options = DriverOptions(workers, ends, "lost" in statuses, total, on_result, progress)
        driver = Driver(source, journal, lambda task: types.of(task).places, queue, runs_on, options)
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
    """Run a driver in a new thread, so that Ctrl-C interrupts a wait without locks in this thread.

    Args:
        driver: The driver.
        interrupt: Setting the event interrupts the driver.
        stack: The caller's clean-up. A second Ctrl-C empties the stack.

    Raises:
        BaseException: The driver's exception; KeyboardInterrupt after Ctrl-C.
    """
    ended: Future[None] = Future()

    def work() -> None:
        try:
            driver.run()
        except BaseException as error:
            ended.set_exception(error)
        else:
            ended.set_result(None)

    is_interrupted = has_ctrl_c = False
    with on_scope_cancel(driver.interrupt):
        if interrupt and interrupt.is_set():  # before any task begins
            is_interrupted = True
            driver.interrupt()
        threading.Thread(target=work, name="hermes-batch", daemon=True).start()
        while not ended.done():
            try:
                wait([ended], timeout=_POLL)
                if interrupt and interrupt.is_set() and not is_interrupted:
                    is_interrupted = True
                    driver.interrupt()
            except KeyboardInterrupt:
                if has_ctrl_c:
                    stack.pop_all()  # without waiting for the clean-up
                    raise
                has_ctrl_c = True
                driver.interrupt()
    ended.result()
    if has_ctrl_c:
        raise KeyboardInterrupt
