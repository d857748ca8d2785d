"""The tar archive of a directory from a target: no entry is written outside the destination."""

from __future__ import annotations

import contextlib
import io
import tarfile
import tempfile
from pathlib import Path

from environments.errors import TerminalError
from environments.shell.archive import unpack
from fuzz.target import Target

_MAGIC_AT, _CHECKSUM = 257, slice(148, 156)
OUTSIDE = b"content outside"


def check_archive(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        outside = Path(folder, "outside")
        outside.write_bytes(OUTSIDE)
        top = Path(folder, "top")
        with contextlib.suppress(TerminalError, OSError):
            unpack(io.BytesIO(with_checksums(data)), top, frozenset({"same"}))
        assert sorted(path.name for path in Path(folder).iterdir()) in (["outside", "top"], ["outside"])
        assert outside.read_bytes() == OUTSIDE
        assert outside.stat().st_nlink == 1
        assert outside.stat().st_mode & 0o777 == 0o644
        assert sum(path.lstat().st_size for path in top.rglob("*") if not path.is_dir()) <= max(100_000, 10 * len(data))


def with_checksums(data: bytes) -> bytes:
    """Correct the checksum of each block that resembles a header: random bytes hardly ever have a valid sum."""
    whole = bytearray(data)
    for start in range(0, len(whole) - tarfile.BLOCKSIZE + 1, tarfile.BLOCKSIZE):
        block = whole[start : start + tarfile.BLOCKSIZE]
        if block[_MAGIC_AT : _MAGIC_AT + 5] == b"ustar":
            block[_CHECKSUM] = b" " * 8
            block[_CHECKSUM] = b"%06o\0 " % sum(block)
            whole[start : start + tarfile.BLOCKSIZE] = block
    return bytes(whole)


def _member(name: str, kind: bytes, target: str = "", size: int = 0, mode: int = 0o600) -> bytes:
    member = tarfile.TarInfo(name)
    member.type, member.linkname, member.size, member.mode = kind, target, size, mode
    return member.tobuf(tarfile.GNU_FORMAT)


def _extension(text: bytes) -> bytes:
    line = b"%d " % (len(text) + 4 if len(text) + 4 < 100 else len(text) + 5) + text + b"\n"
    return _member("pax", tarfile.XHDTYPE, size=len(line)) + line.ljust(tarfile.BLOCKSIZE, b"\0")


_CONTENT = b"content".ljust(tarfile.BLOCKSIZE, b"\0")
_NAMES = ("a", "a/b", "same", "../outside", "/outside", ".", "", "a/../../outside", "a\udc80", "x" * 90)
_WORDS = (
    *(_member(name, tarfile.REGTYPE, size=7) + _CONTENT for name in _NAMES),
    *(_member(name, tarfile.DIRTYPE, mode=0o1777) for name in _NAMES),
    *(
        _member("a", kind, target)
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE)
        for target in ("..", "../outside", ".", "b")
    ),
    *(
        _member("b", kind)
        for kind in (tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.GNUTYPE_SPARSE, b"9")
    ),
    _member("long", tarfile.GNUTYPE_LONGNAME, size=7) + _CONTENT,
    _extension(b"path=../outside"),
    _extension(b"linkpath=../outside"),
    _extension(b"size=99999999999"),
    _extension(b"mtime=1e300"),
    _extension(b"mtime=nan"),
    _extension(b"GNU.sparse.size=99999999"),
    _extension(b"GNU.sparse.map=0,1,99999999,0"),
    bytes(2 * tarfile.BLOCKSIZE),
    _CONTENT,
)

TARGETS = (Target(check_archive, _WORDS),)
