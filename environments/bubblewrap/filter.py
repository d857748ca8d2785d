"""System calls that are refused in a sandbox, as no namespace holds what they lead to.

The keys of a user, such as a Kerberos ticket or what unlocks a disk, are the kernel's, and are given out by user id.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterator, Mapping

_KEYRINGS: Mapping[int, tuple[int, int, int]] = {
    0xC000003E: (248, 249, 250),  # x86-64
    0x40000003: (286, 287, 288),  # i386
    0xC00000B7: (217, 218, 219),  # aarch64
    0x40000028: (309, 310, 311),  # arm
    0xC00000F3: (217, 218, 219),  # riscv64
    0xC0000015: (269, 270, 271),  # ppc64le
    0x80000016: (278, 279, 280),  # s390x
}
"""The numbers of add_key, request_key and keyctl, by AUDIT_ARCH_* of linux/audit.h. One kernel may know several."""
_X32 = 0x40000000
"""From this number on, an x86-64 kernel takes calls for those of a third architecture, which nothing uses."""

# From linux/filter.h and linux/seccomp.h; offsets into seccomp_data.
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_NUMBER, _ARCHITECTURE = 0, 4
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | errno.ENOSYS


def call_filter() -> bytes:
    """Return the filter, as a program for the kernel's packet filter."""
    return b"".join(_program())


def _program() -> Iterator[bytes]:
    for architecture, numbers in _KEYRINGS.items():
        tests = [(_AT_LEAST, _X32), *((_EQUAL, number) for number in numbers)]
        yield _step(_LOAD, _ARCHITECTURE)
        yield _step(_EQUAL, architecture, otherwise=2 * len(tests) + 2)
        yield _step(_LOAD, _NUMBER)
        for test, number in tests:
            yield _step(test, number, otherwise=1)
            yield _step(_RETURN, _REFUSE)
        yield _step(_RETURN, _ALLOW)
    yield _step(_RETURN, _REFUSE)  # an architecture whose numbers are not known


def _step(code: int, value: int, otherwise: int = 0) -> bytes:
    """Return one instruction, which skips so many others if it is a test that fails."""
    return struct.pack("HBBI", code, 0, otherwise, value)
