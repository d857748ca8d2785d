"""The lines of a record, read so that what is damaged or unknown costs no more than itself."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

LONGEST = 64 * 1024 * 1024
"""Bytes of a line that is read. A record's own are far shorter; without a bound, a file without line breaks would have
to fit into memory."""

Line = dict[str, object]


@dataclass(frozen=True, slots=True)
class Damage:
    """A line that was passed over. `what` says why."""

    number: int
    what: str


def read_lines(file: BinaryIO) -> Iterator[Line | Damage]:
    """Read the lines of a record; what cannot be read comes as `Damage`, and empty lines not at all."""
    for number in itertools.count(1):
        line = file.readline(LONGEST)
        if not line:
            return
        if len(line) == LONGEST and not line.endswith(b"\n"):
            _skip_to_its_end(file)
            yield Damage(number, f"longer than {LONGEST // 1024**2} MiB")
        elif line.strip():
            yield _parsed(number, line)


def _skip_to_its_end(file: BinaryIO) -> None:
    while (rest := file.readline(LONGEST)) and not rest.endswith(b"\n"):
        pass


def _parsed(number: int, line: bytes) -> Line | Damage:
    try:
        value = json.loads(line.decode("utf-8", errors="replace"), parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        torn = not line.endswith(b"\n")
        return Damage(number, "torn: whoever wrote it was ended meanwhile" if torn else "not JSON")
    return value if isinstance(value, dict) else Damage(number, "not an object")
