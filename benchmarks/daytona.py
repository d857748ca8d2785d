"""A sandbox of Daytona, played by a stand-in behind a slow link."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from benchmarks.cloud import Action, Cloud, rows_of
from benchmarks.table import Row
from environments import BaseEnvironment
from environments.registry import backend_class


def rows() -> Iterator[Row]:
    """Measure all operations in a sandbox."""
    backend_class("daytona")  # raises MissingExtraError without the client library
    yield from rows_of(
        Cloud(
            name="Daytona",
            backend="daytona",
            server="standins.daytona_server",
            exec_true=_exec_true,
            exec_name="process.exec",
        )
    )


@contextlib.contextmanager
def _exec_true(env: BaseEnvironment) -> Iterator[Action]:
    from environments.daytona.service import sdk

    env.execute("true")
    (sandbox,) = sdk.Daytona().list()
    yield lambda: sandbox.process.exec("true")
