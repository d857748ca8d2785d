"""Docker and Singularity over SSH: this machine's engines, behind a server of our own and a slow link."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.images import docker_image, singularity_image
from benchmarks.measure import clocked, in_turn
from benchmarks.slow_link import slow_link
from benchmarks.ssh import HOST, start_server
from benchmarks.table import OURS, RAW, Row
from environments import BaseEnvironment, TerminalError, create_environment

ONE_WAY = 0.02
"""Seconds from here to the host."""
MORE = 2
"""The goal: further round trips of a command in a container, beside the same command on the host."""


def rows() -> Iterator[Row]:
    """Measure commands in a container over SSH beside the same commands on the host."""
    with contextlib.ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="hermes-benchmark-")))
        near = start_server(folder, opened)
        far = opened.enter_context(slow_link(near, ONE_WAY))
        place = {"ssh_host": HOST, "ssh_port": far, "ssh_config": str(folder / "client")}
        host = opened.enter_context(create_environment("ssh", **place))
        for name, image in (("Docker", docker_image()), ("Singularity", singularity_image())):
            try:
                with create_environment(name.lower(), over="ssh", image=image, **place) as env:
                    yield from _commands(name, env, host)
            except TerminalError as error:
                yield Row(what=f"{name} over SSH", note=f"not measured: {error}")


def _commands(name: str, env: BaseEnvironment, host: BaseEnvironment) -> Iterator[Row]:
    ways: dict[str, Callable[[BaseEnvironment], object]] = {
        'execute("true")': lambda env: env.execute("true"),
        'execute_oneshot("true")': lambda env: env.execute_oneshot("true"),
    }
    for what, run in ways.items():
        timers = {RAW: clocked(lambda run=run: run(host)), OURS: clocked(lambda run=run: run(env))}  # type: ignore[misc]
        measured = in_turn(timers, seconds=4, least_rounds=20)
        yield Row.of(
            f"{what}, {name} over SSH, {2 * ONE_WAY * 1000:.0f} ms away",
            measured,
            goal=1 + MORE * 2 * ONE_WAY / measured.times[RAW].median,
            raw_is=f"the same on the host over SSH; the goal is {MORE} round trips more",
        )
