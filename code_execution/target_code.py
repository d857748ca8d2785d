"""Compiled code of this package for the Pythons of an environment.

A Python with another magic number compiles the code itself, after the first script it has run. Marshalled code depends
on the magic number alone. Code from a target is never loaded here, and is never sent to another environment.
"""

from __future__ import annotations

import binascii
import re
import shlex
import sys
from collections.abc import Collection
from functools import partial
from importlib.util import MAGIC_NUMBER
from typing import NamedTuple
from weakref import WeakKeyDictionary

from code_execution.interpreter import NOT_FOUND, NUMBER, PYTHON, Pythons
from environments.base import BaseEnvironment
from environments.cancellation import in_no_scope
from environments.errors import TerminalError
from environments.loop import in_worker, spawn
from environments.result import CommandResult
from rpc.target_source import FUTURE, compiled

OURS = MAGIC_NUMBER.hex()
_MOST_TRIES = 2
_MOST_KEPT = 32
_MOST_BYTES = 2_000_000
"""Limit in bytes for the compiled code of a run."""
_BEGINNINGS = (b"c", b"\xe3")
"""First bytes of valid marshalled code."""
_LIMIT = 20.0
"""Limit in seconds for compiling."""
_COMPILER = """\
import binascii,marshal,sys,__future__ as f
from _frozen_importlib_external import MAGIC_NUMBER as m
print(m.hex(),sys.implementation.cache_tag)
for s,n,o in eval(sys.stdin.read()):
 c=compile(s,n,"exec",f.annotations.compiler_flag,True,o)
 print(binascii.b2a_base64(marshal.dumps(c),newline=False).decode())
"""


class CodeSource(NamedTuple):
    """A source to be compiled."""

    text: str
    name: str
    """File name in tracebacks."""
    is_documented: bool = True
    """True to keep docstrings."""


class TargetCode:
    """Magic numbers and compiled code for the Pythons of an environment."""

    def __init__(self) -> None:
        self._magic: dict[str, str] = {}
        self._tags = {OURS: sys.implementation.cache_tag or ""}
        self._code: dict[tuple[str, CodeSource], bytes] = {}
        self._tries: dict[tuple[str, CodeSource], int] = {}

    @staticmethod
    def of(env: BaseEnvironment) -> TargetCode:
        """Return the record of an environment."""
        return _known.setdefault(env, TargetCode())

    def magic(self, python: str) -> str:
        """Return the magic number of a candidate, in hexadecimal digits; empty if unknown."""
        return self._magic.get(python, "")

    def record(self, python: str, magic: str) -> None:
        """Record a candidate's magic number."""
        self._magic[python] = magic

    def drop(self, python: str, magic: str) -> None:
        """Record that a candidate could not run the code.

        Args:
            python: The candidate.
            magic: The candidate's magic number. If unchanged, the code is bad and is dropped.
        """
        if self._magic.pop(python, "") == magic:
            for key in [key for key in self._code if key[0] == magic]:
                del self._code[key]

    def code(self, magic: str, source: CodeSource) -> bytes | None:
        """Return marshalled code for a magic number; None if not available yet."""
        if magic == OURS:
            return compiled(source.text, source.name, is_documented=source.is_documented)
        return self._code.get((magic, source))

    def tag(self, magic: str) -> str:
        """Return the tag in names of `.pyc` files; empty if unknown."""
        return self._tags.get(magic, "")

    def compile_in_target(
        self, env: BaseEnvironment, python: str, search_path: str, wanted: Collection[CodeSource]
    ) -> None:
        """Start compiling missing code with a candidate, in the background. A failure is harmless."""
        magic = self.magic(python)
        missing = [source for source in wanted if self.code(magic, source) is None]
        missing = [source for source in missing if self._tries.get((magic, source), 0) < _MOST_TRIES]
        if not magic or not missing:
            return
        for source in missing:
            self._tries[magic, source] = self._tries.get((magic, source), 0) + 1
        with in_no_scope():
            spawn(self._compile(env, Pythons((python,), search_path), missing))

    async def _compile(self, env: BaseEnvironment, pythons: Pythons, sources: list[CodeSource]) -> None:
        given = [(text.replace(FUTURE, "\n", 1), name, -1 if is_full else 2) for text, name, is_full in sources]
        found = f'{pythons.choose_command()}[ -n "${NUMBER}" ] || exit {NOT_FOUND}\n'
        run = partial(
            env.internal.execute,
            f"{found}exec {PYTHON} -IS -c {shlex.quote(_COMPILER)}",
            stdin=ascii(given),
            stderr="separate",
            timeout=_LIMIT,
            max_output_bytes=_MOST_BYTES,
        )
        try:
            self._store(await in_worker(run), sources)
        except (TerminalError, ValueError, OSError):  # scripts run from source then
            return

    def _store(self, result: CommandResult, sources: list[CodeSource]) -> None:
        """Store compiled code from a target.

        Raises:
            ValueError: The output has a wrong form.
        """
        head, *lines = result.output.splitlines() or [""]
        known = re.fullmatch(r"([0-9a-f]{8}) ([A-Za-z0-9_-]{1,40})", head)
        if result.exit_code or not known or len(lines) != len(sources):
            raise ValueError
        codes = [binascii.a2b_base64(line, strict_mode=True) for line in lines]
        if not all(code.startswith(_BEGINNINGS) for code in codes):
            raise ValueError
        magic = known[1]
        self._tags[magic] = known[2]
        for source, code in zip(sources, codes, strict=True):
            self._code[magic, source] = code
        while len(self._code) > _MOST_KEPT:
            del self._code[next(iter(self._code))]
        while len(self._tries) > 8 * _MOST_KEPT:
            del self._tries[next(iter(self._tries))]


_known: WeakKeyDictionary[BaseEnvironment, TargetCode] = WeakKeyDictionary()
