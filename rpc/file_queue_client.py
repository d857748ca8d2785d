"""The script's half of the file queue: part of the stub, for Python 3.8 and the standard library alone."""

# Importing pathlib or contextlib would cost each script milliseconds.
# ruff: noqa: PTH104, PTH108, PTH110, SIM105

from __future__ import annotations

import binascii as _binascii
import errno as _errno
import os as _os
import select as _select
import time as _time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rpc.stub_runtime import _own

# Seconds between two polls for an answer without a wake-up, and between those that only back up the wake-up.
_FIRST_PAUSE = 0.0003
_LONGEST_PAUSE = 0.01
_FIRST_NET_PAUSE = 0.02
_LONGEST_NET_PAUSE = 0.2

_last_number = 0


def _claim_number() -> tuple[int, bool]:
    # The claim file stays: if a number came back, a late removal of the old request would hit the new one. Where
    # possible the claim is a pipe. After the answer is written, the writer opens and closes the pipe, which wakes the
    # reader.
    global _last_number  # noqa: PLW0603
    number = _last_number
    while True:
        number += 1
        path = f"{_own()[1]}/claim_{number:06d}"
        is_pipe = True
        try:
            try:
                _os.mkfifo(path, 0o600)
            except FileExistsError:
                raise
            except OSError:
                is_pipe = False
                _os.close(_os.open(path, _os.O_CREAT | _os.O_EXCL | _os.O_WRONLY, 0o600))
        except FileExistsError:
            continue
        _last_number = number
        return number, is_pipe


def _write_request(path: str, line: bytes) -> None:
    temporary = path + ".tmp"
    try:
        with open(temporary, "wb") as file:
            file.write(line)
    except OSError:  # a full disk, most likely
        if _os.path.exists(temporary):
            _os.unlink(temporary)
        raise
    _os.rename(temporary, path)


def _wake() -> None:
    # ENXIO: no reader waits, and the next scan finds the file. A full pipe wakes the reader anyway.
    try:
        pipe = _os.open(_own()[1] + "/wake", _os.O_WRONLY | _os.O_NONBLOCK)
    except OSError as error:
        if error.errno in (_errno.ENXIO, _errno.ENOENT):
            return
        raise
    try:
        _os.write(pipe, b"\n")
    except (BlockingIOError, BrokenPipeError):
        pass
    finally:
        _os.close(pipe)


def _exchange(request_line: bytes) -> bytes:
    number, is_pipe = _claim_number()
    # Opened before the request exists, because only an open pipe is woken when the answer arrives.
    pipe = _os.open(f"{_own()[1]}/claim_{number:06d}", _os.O_RDONLY | _os.O_NONBLOCK) if is_pipe else None
    request = f"{_own()[1]}/req_{number:06d}"
    try:
        _write_request(request, request_line)
        _wake()
        answer = _await_answer(f"{_own()[1]}/res_{number:06d}", pipe)
    finally:
        if pipe is not None:
            _os.close(pipe)
    try:
        _os.unlink(request)  # no process is needed for this here
    except FileNotFoundError:
        pass
    # A small answer was written as base64, a large one as it is.
    return answer if answer.startswith(b"{") else _binascii.a2b_base64(answer)


def _await_answer(path: str, pipe: int | None) -> bytes:
    woken = None
    if pipe is not None:
        woken = _select.poll()
        woken.register(pipe, 0)  # a closed other end is always reported
    pause, net_pause = _FIRST_PAUSE, _FIRST_NET_PAUSE
    while True:
        if woken is None:
            _time.sleep(pause)
            pause = min(pause * 1.1, _LONGEST_PAUSE)
        elif woken.poll(net_pause * 1000):
            woken = None  # the closed pipe would be reported forever
        else:
            net_pause = min(net_pause * 1.2, _LONGEST_NET_PAUSE)
        if pipe is not None and _is_whole(path + ".tmp"):
            _os.rename(path + ".tmp", path)
        try:
            with open(path, "rb") as file:
                answer = file.read()
        except FileNotFoundError:
            continue
        _os.unlink(path)
        return answer


def _is_whole(path: str) -> bool:
    # An answer is one line.
    try:
        with open(path, "rb") as file:
            file.seek(-1, _os.SEEK_END)
            return file.read() == b"\n"
    except OSError:  # no file, or an empty one
        return False
