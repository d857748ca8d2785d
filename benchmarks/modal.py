"""A sandbox of Modal, played by a stand-in behind a slow link."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from benchmarks.cloud import Action, Cloud, rows_of
from benchmarks.table import Row
from environments import BaseEnvironment
from environments.registry import backend_class


def rows() -> Iterator[Row]:
    """Measure all operations in a sandbox."""
    backend_class("modal")  # raises MissingExtraError without the client library
    yield from rows_of(
        Cloud(
            name="Modal",
            backend="modal",
            server="standins.modal_server",
            exec_true=_exec_true,
            exec_name="sandbox.exec",
            disconnect=_disconnect,
        )
    )


@contextlib.contextmanager
def _exec_true(env: BaseEnvironment) -> Iterator[Action]:
    import modal

    env.execute("true")
    app = modal.App.lookup("hermes-environments")
    (sandbox,) = modal.Sandbox.list(app_id=app.app_id)

    def run() -> None:
        process = sandbox.exec("true")
        process.stdout.read()
        process.wait()

    try:
        yield run
    finally:
        sandbox.detach()


def _disconnect() -> None:
    import modal

    modal.Client.from_env().close()
