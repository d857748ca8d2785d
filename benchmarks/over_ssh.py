"""Docker and Singularity on a host over SSH: this one, by a server of our own behind a link with a round-trip time."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.distant import distant
from benchmarks.docker import IMAGE
from benchmarks.measure import medians
from benchmarks.ssh import HOST, start_server
from benchmarks.table import Row
from environments import BaseEnvironment, TerminalError, create_environment, load_settings

ONE_WAY = 0.02
"""Seconds from here to the host."""
MORE = 2
"""Round trips that a command in a container may take more than the same command on the host."""
SANDBOX = Path("/var/cache/e2e/e2e-python.sandbox")
"""What e2e/setup makes, where the settings name no image."""


def rows() -> Iterator[Row]:
    """Measure commands in a container behind SSH beside the same commands on its host."""
    with contextlib.ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="hermes-benchmark-")))
        near = start_server(folder, opened)
        far = opened.enter_context(distant(near, ONE_WAY))
        place = {"ssh_host": HOST, "ssh_port": far, "ssh_config": str(folder / "client")}
        host = opened.enter_context(create_environment("ssh", **place))
        for name, image in (("Docker", _docker_image()), ("Singularity", _singularity_image())):
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
        on_host, inside = medians(lambda run=run: run(host), lambda run=run: run(env), seconds=4, least_rounds=20)  # type: ignore[misc]
        yield Row(
            what=f"{what}, {name} over SSH, {2 * ONE_WAY * 1000:.0f} ms away",
            raw=on_host,
            ours=inside,
            goal=1 + MORE * 2 * ONE_WAY / on_host,
            note=f"raw: the same on the host over SSH; goal: {MORE} round trips more",
        )


def _docker_image() -> str:
    return load_settings("docker").docker.image or IMAGE


def _singularity_image() -> str:
    return load_settings("singularity").singularity.image or str(SANDBOX)
