"""Change x86-64 programs built against glibc 2.38 or later in place, so that they run with an older glibc.

    python3 older_glibc.py PROGRAM...

Such programs usually need four aliases of glibc 2.38, such as `__isoc23_strtol`. The alias does the same as the
function without the prefix, and also accepts binary literals. Each alias ends with the name of the older function.
The script makes the symbol's name begin 9 characters later, and sets the oldest version. Debian 12 has glibc 2.36:
a program that needs any other symbol newer than 2.36 is refused.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PREFIX = b"__isoc23_"
ALIASES = {PREFIX + name for name in (b"strtol", b"strtoul", b"strtoll", b"strtoull")}
OLDEST = b"GLIBC_2.2.5"
NEWEST_ALLOWED = (2, 36)

SECTION_DYNSYM, SECTION_VERSYM, SECTION_VERNEED = 11, 0x6FFFFFFF, 0x6FFFFFFE
SYMBOL_SIZE = 24


@dataclass(frozen=True)
class Section:
    """Place of a section in the file."""

    kind: int
    offset: int
    size: int
    link: int


@dataclass(frozen=True)
class NeededVersion:
    """A version of a library that the program needs."""

    offset: int
    hash: int
    index: int
    name_offset: int
    name: bytes

    @property
    def is_too_new(self) -> bool:
        """True if the version is newer than Debian 12's glibc."""
        text = self.name.removeprefix(b"GLIBC_")
        return text != self.name and text[:1].isdigit() and tuple(map(int, text.split(b"."))) > NEWEST_ALLOWED


class Program:
    """An ELF file in memory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.data = bytearray(path.read_bytes())
        if self.data[:6] != b"\x7fELF\x02\x01":
            raise SystemExit(f"{path}: not a 64-bit little-endian ELF file")
        (table,) = struct.unpack_from("<Q", self.data, 40)
        size, count = struct.unpack_from("<HH", self.data, 58)
        sections = [self._section(table + size * number) for number in range(count)]
        by_kind = {section.kind: section for section in sections}
        self.symbols = by_kind[SECTION_DYNSYM]
        self.versions = by_kind[SECTION_VERSYM]
        self.needs = by_kind[SECTION_VERNEED]
        self.names = sections[self.symbols.link]

    def _section(self, at: int) -> Section:
        _, kind, _, _, offset, size, link, *_ = struct.unpack_from("<IIQQQQIIQQ", self.data, at)
        return Section(kind, offset, size, link)

    def name(self, offset: int) -> bytes:
        """Return a name of the dynamic string table."""
        start = self.names.offset + offset
        return bytes(self.data[start : self.data.index(0, start)])

    def needed_versions(self) -> Iterator[NeededVersion]:
        """Yield the needed versions of each library."""
        library = self.needs.offset
        while True:
            _, count, _, first, following = struct.unpack_from("<HHIII", self.data, library)
            at = library + first
            for _ in range(count):
                digest, _, index, name, step = struct.unpack_from("<IHHII", self.data, at)
                yield NeededVersion(at, digest, index, name, self.name(name))
                at += step
            if not following:
                return
            library += following

    def symbols_of(self, indices: set[int]) -> Iterator[tuple[int, int]]:
        """Yield the symbols of some versions: the offset of the entry, and the offset of the name."""
        for number in range(self.symbols.size // SYMBOL_SIZE):
            (version,) = struct.unpack_from("<H", self.data, self.versions.offset + 2 * number)
            if version & 0x7FFF in indices:
                at = self.symbols.offset + number * SYMBOL_SIZE
                yield at, struct.unpack_from("<I", self.data, at)[0]


def replace_aliases(path: Path) -> int:
    """Change a program in place; return the number of changed symbols."""
    program = Program(path)
    needed = list(program.needed_versions())
    too_new = [version for version in needed if version.is_too_new]
    if not too_new:
        return 0
    oldest = next((version for version in needed if version.name == OLDEST), None)
    symbols = list(program.symbols_of({version.index for version in too_new}))
    foreign = {program.name(name) for _, name in symbols} - ALIASES
    if foreign or oldest is None:
        raise SystemExit(
            f"{path}: cannot be changed: the program needs {sorted(foreign)} of {[v.name for v in too_new]}"
        )
    for at, name in symbols:
        struct.pack_into("<I", program.data, at, name + len(PREFIX))
    for version in too_new:
        struct.pack_into("<I", program.data, version.offset, oldest.hash)
        struct.pack_into("<I", program.data, version.offset + 8, oldest.name_offset)
    path.write_bytes(program.data)
    return len(symbols)


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        replace_aliases(Path(argument))
