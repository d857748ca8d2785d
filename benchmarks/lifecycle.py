"""A container's life cycle for a command: beside the engine's own calls, and from a pool."""

from __future__ import annotations

import secrets
import subprocess
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from benchmarks.docker import container_of, peer_arguments
from benchmarks.images import docker_image
from benchmarks.measure import Measured, clocked, in_turn
from benchmarks.peers.peer import opened_peers, timers_of
from benchmarks.table import OURS, RAW, Row
from environments import BaseEnvironment, Pool, create_environment
from environments.conformance.check import wait_until

if TYPE_CHECKING:
    from docker import APIClient

READY = 2
"""The number of ready environments in the pool."""
POOL_GOAL = 0.02
"""The goal of a first command from a pool, in seconds."""
ROUNDS = 8
RAW_IS = "the engine's create, start and remove of the same container, by docker-py"


def rows() -> Iterator[Row]:
    """Measure a container's life cycle, and a first command from a pool."""
    import docker

    api = docker.APIClient()
    try:
        with create_environment("docker", image=docker_image()) as env:
            made = _recipe(api, env)
            version = env.execute("python3 -c 'import sys; print(*sys.version_info[:2], sep=\".\")'").output
        asked, missing = peer_arguments(version)
        asked = {kind: {**place, "make": False} for kind, place in asked.items()}
        with opened_peers(asked) as (peers, not_opened):
            timers = {
                RAW: clocked(lambda: _raw_life(api, made)),
                OURS: clocked(_life),
                "`docker run`, `exec`, `rm`": clocked(_life_by_program),
                **timers_of(peers, "life"),
            }
            measured = in_turn(timers, seconds=0, least_rounds=ROUNDS, missing={**missing, **not_opened})
        yield Row.of("create, first command, cleanup, Docker", measured, goal=1.3, raw_is=RAW_IS)
        yield _from_pool(measured)
    finally:
        api.close()


def _recipe(api: APIClient, env: BaseEnvironment) -> dict[str, Any]:
    """Return the engine's arguments for a container like an environment's."""
    found = api.inspect_container(container_of(env))
    return {
        "image": found["Image"],
        "command": ["/bin/sh"],
        "entrypoint": [],
        "stdin_open": True,
        "host_config": found["HostConfig"],
    }


def _raw_life(api: APIClient, made: dict[str, Any]) -> None:
    container = api.create_container(**made)["Id"]
    try:
        api.start(container)
    finally:
        api.remove_container(container, force=True)


def _life() -> None:
    with create_environment("docker", image=docker_image()) as env:
        env.execute("true")


def _life_by_program() -> None:
    name = f"hermes-benchmark-{secrets.token_hex(6)}"
    try:
        _docker("run", "--detach", "--init", "--name", name, docker_image(), "sleep", "infinity")
        _docker("exec", name, "true")
    finally:
        _docker("rm", "--force", name)


def _docker(*words: str) -> None:
    subprocess.run(["docker", *words], capture_output=True, check=True)


def _from_pool(life: Measured) -> Row:
    with Pool({"backend": "docker", "image": docker_image()}, min=READY, max=READY + 1) as pool:

        def borrowed() -> tuple[float]:
            wait_until(lambda: pool.stats().idle >= READY, seconds=60)
            began = time.perf_counter()
            with pool.environment() as env:
                env.execute("true")
                return (time.perf_counter() - began,)

        measured = in_turn({OURS: borrowed}, seconds=0, least_rounds=ROUNDS)
    raw = life.times.get(RAW)
    return Row.of(
        "first command from a pool, Docker",
        measured.beside(RAW, raw) if raw else measured,
        limit=POOL_GOAL,
        raw_is="as above",
    )
