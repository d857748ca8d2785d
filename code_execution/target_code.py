"""Our code in compiled form, for each Python of an environment that is not like ours.

Such a Python compiles it once, by itself, behind the first script that has run on it. Marshalled code depends on its
magic number alone. It comes from the target, so that it is never loaded here, and goes to no other environment.
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
"""Bytes that the compiled code of one run may have."""
_BEGINNINGS = (b"c", b"\xe3")
"""The first bytes that marshalled code may have."""
_LIMIT = 20.0
"""Seconds in which it has to be compiled."""
_COMPILER = """\
import binascii,marshal,sys,__future__ as f
from _frozen_importlib_external import MAGIC_NUMBER as m
print(m.hex(),sys.implementation.cache_tag)
for s,n,o in eval(sys.stdin.read()):
 c=compile(s,n,"exec",f.annotations.compiler_flag,True,o)
 print(binascii.b2a_base64(marshal.dumps(c),newline=False).decode())
"""


class CodeSource(NamedTuple):
    """A source of ours that is to be compiled."""

    text: str
    name: str
    """What its file is called in tracebacks."""
    is_documented: bool = True
    """Whether it keeps its docstrings."""


class TargetCode:
    """What is known of the Pythons of one environment."""

    def __init__(self) -> None:
        self._magic: dict[str, str] = {}
        self._tags = {OURS: sys.implementation.cache_tag or ""}
        self._code: dict[tuple[str, CodeSource], bytes] = {}
        self._tries: dict[tuple[str, CodeSource], int] = {}

    @staticmethod
    def of(env: BaseEnvironment) -> TargetCode:
        """Return that of an environment."""
        return _known.setdefault(env, TargetCode())

    def magic(self, python: str) -> str:
        """Return the magic number of a candidate's code, in hexadecimal digits; empty if it is not known."""
        return self._magic.get(python, "")

    def note(self, python: str, magic: str) -> None:
        """Note which code a candidate runs."""
        self._magic[python] = magic

    def forget(self, python: str, magic: str) -> None:
        """Note that a candidate does not run the code that it was given.

        Args:
            python: The candidate.
            magic: Its magic number. If that is as it was, the code is bad.
        """
        if self._magic.pop(python, "") == magic:
            for key in [key for key in self._code if key[0] == magic]:
                del self._code[key]

    def code(self, magic: str, source: CodeSource) -> bytes | None:
        """Return marshalled code for such a Python; None if it is not to be had yet."""
        if magic == OURS:
            return compiled(source.text, source.name, is_documented=source.is_documented)
        return self._code.get((magic, source))

    def tag(self, magic: str) -> str:
        """Return the word for such a Python in names of cached files; empty if it is not known."""
        return self._tags.get(magic, "")

    def compile_in_target(
        self, env: BaseEnvironment, python: str, search_path: str, wanted: Collection[CodeSource]
    ) -> None:
        """Have a candidate compile what is not to be had for it yet, while others go on. It may fail without harm."""
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
            self._take(await in_worker(run), sources)
        except (TerminalError, ValueError, OSError):  # it goes on from source
            return

    def _take(self, result: CommandResult, sources: list[CodeSource]) -> None:
        """Keep what a target has sent.

        Raises:
            ValueError: It is not what was asked for.
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
