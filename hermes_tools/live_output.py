"""Showing what a command of `terminal` prints while it runs, to whoever has called the tool and wants to see it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from contextvars import ContextVar

from environments.cancellation import holding
from environments.model_view import ModelView
from environments.output import TextCallback

_watcher: ContextVar[TextCallback | None] = ContextVar("hermes_output_watcher", default=None)


def watching_output(on_output: TextCallback | None) -> AbstractContextManager[None]:
    """Have a function told what a command prints that `terminal` runs in the foreground, called in this block.

    Args:
        on_output: Called in the current thread with each piece as it comes, without terminal controls and the values
            of secrets, as a model gets it. What it raises ends the command. None tells nobody.
    """
    return holding(_watcher, on_output)


@contextlib.contextmanager
def shown_live(view: ModelView) -> Iterator[TextCallback | None]:
    """Yield what `execute` is to be given as `on_output` in the block; None where nobody watches.

    Args:
        view: Makes the output fit for a model.
    """
    watcher = _watcher.get()
    if watcher is None:
        yield None
        return
    pieces = view.pieces()

    def show(text: str, final: bool = False) -> None:
        if shown := pieces.feed(text, final):
            watcher(shown)

    yield show
    show("", final=True)
