"""The server's source: modules of this package, one behind the other, as text that runs in the target by itself."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources

from rpc.stub import OWN

_PARTS = (
    "script_start.py",
    "warm/ready_modules.py",
    "warm/compiled_tools.py",
    "warm/choosing.py",
    "warm/fingerprint.py",
    "warm/own_memory.py",
    "warm/taking_over.py",
    "warm/nurse.py",
    "warm/server_program.py",
)
_AMONG_THEM = re.compile(r"^from (?:__future__|code_execution\.\S+) import (?:\([^)]*\)|.*)\n", re.MULTILINE)
_AS_A_PROGRAM = re.compile(r'^if __name__ == "__main__":\n(?:    .*\n)+', re.MULTILINE)
_EXPLAINING = re.compile(r'^( *)"""(?:[^"]|"(?!""))*"""\n|^ *#.*\n|  # (?:noqa|type: ignore).*$', re.MULTILINE)
"""Docstrings and comments, of which the target has no need, nor room for on a small disk."""
_START = """
if __name__ == "__main__":
    this_module = sys.modules["__main__"]  # kept, as in script_start.py
    become()
"""


@cache
def server_source() -> str:
    """Return the source of that program, for Python 3.8 or later."""
    files = resources.files("code_execution")
    texts = [files.joinpath(part).read_text("utf-8") for part in _PARTS]
    bare = [_EXPLAINING.sub(_without, _AS_A_PROGRAM.sub("", _AMONG_THEM.sub("", text))) for text in texts]
    return "\n".join(["from __future__ import annotations\n", *bare, f"OWN = {OWN.encode()!r}", _START])


def _without(found: re.Match[str]) -> str:
    indent = found[1]
    return "" if indent is None else f'{indent}""\n'  # which may be all that there is in a function
