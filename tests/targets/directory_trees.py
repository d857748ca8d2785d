"""Directory trees to copy and to compare."""

from __future__ import annotations

import os
import stat
from pathlib import Path

TIME = 1_000_000_000
"""The modification time of the first file, in seconds."""

Described = dict[bytes, tuple[object, ...]]


def write_tree(top: Path, files: dict[str, str]) -> Path:
    """Write files, all with the modification time `TIME`."""
    for name, text in files.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(text)
        os.utime(top / name, (TIME, TIME))
    return top


def describe_tree(top: Path) -> Described:
    """Return the entries of a directory by name in bytes: permissions, time, and contents or link target."""
    found: Described = {}
    for path in (top, *top.rglob("*")):
        status = path.lstat()
        holds: object = None
        if stat.S_ISLNK(status.st_mode):
            holds = os.readlink(path)  # noqa: PTH115 - the text as stored
        elif stat.S_ISREG(status.st_mode):
            holds = path.read_bytes()
        found[bytes(path.relative_to(top))] = oct(status.st_mode), int(status.st_mtime), holds
    return found


def make_rich_tree(top: Path) -> Path:
    """Make a directory with all kinds of names, modes, links and sizes."""
    (top / "sub" / "deep" / "empty").mkdir(parents=True)
    (top / "many").mkdir()
    for number in range(100):
        (top / "many" / str(number)).write_text(f"{number}\n" * number)
    (top / "large").write_bytes(os.urandom(2_000_000))
    for name in ("a 'b' \"c\"", "$(touch x)", "two\nlines", "-rf", "*", "back\\slash", "end ", "ü", "😀" * 63):
        (top / "sub" / name).write_text(name)
    (top / "sub" / os.fsdecode(b"\xff\xfe")).write_text("no UTF-8")
    deep = top / ("x" * 200) / ("é" * 100) / ("y" * 200)
    deep.mkdir(parents=True)
    (deep / "file").write_text("far down")
    (top / "outside").symlink_to("/etc/passwd")
    (top / "nowhere").symlink_to("../" * 30 + "none/" * 30)
    (top / "sub" / "folder").symlink_to("deep")
    (top / "closed").mkdir()
    (top / "closed" / "file").write_text("in it")
    for number, path in enumerate(sorted(top.rglob("*"))):
        if not path.is_symlink():
            path.chmod(0o700 if path.is_dir() else (0o751, 0o444, 0o666, 0o640)[number % 4])
        os.utime(path, (TIME + number, TIME + number), follow_symlinks=False)
    (top / "closed").chmod(0o555)
    (top / "sub").chmod(0o777)
    os.utime(top, (TIME, TIME))
    top.chmod(0o711)
    return top
