"""The memory of this process, as counted by Linux."""

from __future__ import annotations

import re
from pathlib import Path

_SELF = Path("/proc/self")


def resident_bytes() -> int:
    """Return the resident bytes of this process."""
    return _status("VmRSS")


def peak_bytes() -> int:
    """Return the peak since the last `forget_peak`."""
    return _status("VmHWM")


def forget_peak() -> int:
    """Reset the peak, and return the resident bytes."""
    (_SELF / "clear_refs").write_text("5")
    return resident_bytes()


def _status(name: str) -> int:
    found = re.search(rf"^{name}:\s+(\d+) kB", (_SELF / "status").read_text(), re.MULTILINE)
    assert found
    return int(found[1]) * 1024
