"""What a script is told of its errors: no frames of hermes_tools, and the names there are. Part of the stub."""

from __future__ import annotations

import sys as _sys
import threading as _threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType, TracebackType

__all__: list[str] = []
# What the module offers; in the stub, the names of the tools and helpers.

_shown_before = _sys.excepthook
_shown_in_threads_before = _threading.excepthook


def __getattr__(name: str) -> object:
    what = f"there are: {', '.join(sorted(__all__))}{_near(name)}"
    # Python makes an ImportError of an AttributeError, and takes away what it says.
    if _is_imported(_sys._getframe(1)):
        raise ImportError(f"cannot import name {name!r} from 'hermes_tools'; {what}", name="hermes_tools")
    error = AttributeError(f"hermes_tools has no {name!r}; {what}")
    error.name = name  # or Python would add a suggestion of its own
    raise error


def _near(name: str) -> str:
    import difflib

    near = difflib.get_close_matches(name, __all__, 1)
    return f"; did you mean {near[0]!r}?" if near else ""


def _is_imported(frame: FrameType) -> bool:
    import opcode

    code, at = frame.f_code.co_code, frame.f_lasti
    while 0 <= at < len(code) and code[at] == opcode.EXTENDED_ARG:  # which is in front, up to Python 3.10
        at += 2
    return 0 <= at < len(code) and code[at] == opcode.opmap["IMPORT_FROM"]


def _show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    _hide_frames(error)
    _shown_before(kind, error, error.__traceback__)


def _show_in_thread(args: _threading.ExceptHookArgs) -> None:
    error = args.exc_value
    if error is not None:
        _hide_frames(error)
        args = _threading.ExceptHookArgs((args.exc_type, error, error.__traceback__, args.thread))
    _shown_in_threads_before(args)


_sys.excepthook = _show
_threading.excepthook = _show_in_thread


def _hide_frames(error: BaseException) -> None:
    waiting: list[BaseException | None] = [error]
    seen: list[BaseException] = []
    while waiting:
        each = waiting.pop()
        if each is not None and each not in seen:
            seen.append(each)
            each.__traceback__ = _without_ours(each.__traceback__)
            waiting += [each.__cause__, each.__context__, *getattr(each, "exceptions", ())]


def _without_ours(trace: TracebackType | None) -> TracebackType | None:
    kept = []
    while trace is not None:
        if trace.tb_frame.f_globals is not _without_ours.__globals__:
            kept.append(trace)
        trace = trace.tb_next
    for number, each in enumerate(kept, 1):
        each.tb_next = kept[number] if number < len(kept) else None
    return kept[0] if kept else None
