"""Staging of a script: its files, the boot program, and the start command."""

from __future__ import annotations

import marshal
import shlex
import sys
from binascii import b2a_base64
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from code_execution import boot_program
from code_execution.boot_program import HELD, SCRIPT
from code_execution.interpreter import PYTHON, Pythons
from code_execution.output import STUB, BootMessages
from code_execution.target_code import OURS, CodeSource, TargetCode
from environments.base import BaseEnvironment
from environments.errors import TerminalError
from rpc.messages import MAX_MESSAGE_BYTES
from rpc.relay import TOO_LARGE
from rpc.stub import own_file
from rpc.target_source import FUTURE, cache_file, target_source

_BOOT, _TOOLS = "sitecustomize", STUB.removesuffix(".py")
_CACHE = "__pycache__/"
OWN = "own"
QUEUE = "rpc"
_FIRST = b"trap - EXIT;exit;#%9d\n"
"""Line before the input of a boot program, with the size. If the Python leaves the input unread, the shell runs this
line and exits."""
_LENGTH = len(_FIRST % 0)
_LOADER = f"""\
import os,marshal
d=b"";n={_LENGTH}
while len(d)<n:
 d+=os.read(0,n-len(d))or os._exit({boot_program.CUT_SHORT})
 if len(d)=={_LENGTH}:n+=int(d[-10:])
d=d[{_LENGTH}:]
d=marshal.loads(d if d[:1]==b"{{"else __import__("binascii").a2b_base64(d))
m={{"__name__":"boot"}}
M=__import__("_frozen_importlib_external").MAGIC_NUMBER.hex()
b=d["source"]
try:b=marshal.loads(d["boot"])if d["magic"]==M else b
except Exception:0
if not b:
 n={boot_program.SECRET_SIZE}
 while n:n-=len(os.read(0,n))or os._exit({boot_program.CUT_SHORT})
 os.write(2,("\\x1e%s another %s\\n"%(d["word"],M)).encode());os._exit(0)
exec(b,m)
c,n,e=m["main"](d,m.get("ScriptRunner"))
try:exec(c,n)
except BaseException:e();raise
"""
"""Reads the boot program and its input from standard input, and runs it. Visible in process lists."""


def files_of(code: str, stub: str, token: str, place: str, *, queue: bool) -> dict[str, bytes]:
    """Return the files of a script's directory by name. A final `/` in a name means a directory, a final `|` a pipe.

    Args:
        code: The script's source.
        stub: Source of the tools' module.
        token: Secret of the tool calls.
        place: Path of the socket or queue.
        queue: True to create the queue in the directory.
    """
    files = {SCRIPT: code.encode(), STUB: stub.encode(), OWN: own_file(token, place).encode()}
    if queue:
        files[f"{QUEUE}/"] = files[f"{QUEUE}/wake|"] = b""
    return files


@cache
def _boot(*, stays: bool = False) -> CodeSource:
    """Return the boot program, with the session program for a Python session."""
    files = ("boot_program.py", *(("session_program.py",) if stays else ()))
    return CodeSource(
        FUTURE + "".join(target_source(file, "code_execution") for file in files), "boot", is_documented=False
    )


def _portable_source(boot: CodeSource) -> str:
    """Return the source for any Python, where the import of `__future__` must not load the script's own."""
    return boot.text.replace(FUTURE, f"{FUTURE}import sys\nsys.modules.pop('__future__', None)\n", 1)


class Staging:
    """Stages a script in its directory and returns the start command.

    Args:
        env: Environment of the script.
        directory: Directory of the script, not yet existing.
        messages: Receives the messages of the start.
        pythons: Candidates for the Python.
    """

    def __init__(self, env: BaseEnvironment, directory: str, messages: BootMessages, pythons: Pythons) -> None:
        self._env, self._directory, self._messages, self._pythons = env, directory, messages, pythons
        self._python = pythons.candidates[0]
        self._code = TargetCode.of(env)
        self._used: list[CodeSource] = []

    def stage_here(self, files: Mapping[str, bytes], mode: str, arguments: Sequence[str]) -> str:
        """Write the files on this machine, and return shell text: the Python and its arguments.

        Raises:
            TerminalError: A file could not be written.
        """
        magic = OURS if self._python == sys.executable else self._code.magic(self._python)
        begin = {boot_program.BEGIN: f"{self._messages.word} {mode}".encode(), HELD: files[SCRIPT]}
        if self._mentions_tools(files):
            begin |= self._cached(magic, _TOOLS, CodeSource(files[STUB].decode(), STUB))
        if self._python == sys.executable:
            begin[f"{_BOOT}.pyc"] = cache_file(self._compiled(OURS, _boot()) or b"", OURS)
        else:  # with the source beside, because the Python may have changed
            begin |= {f"{_BOOT}.py": _portable_source(_boot()).encode(), **self._cached(magic, _BOOT, _boot())}
        if any(name.startswith(_CACHE) for name in begin):
            begin = {_CACHE: b"", **begin}
        try:
            boot_program.stage(self._directory, {name: files[name] for name in files if name != SCRIPT} | begin)
        except OSError as error:
            raise self.failed(str(error)) from error
        return f"{PYTHON} -u {shlex.join([f'{self._directory}/{SCRIPT}', *arguments])}"

    def boot_command(
        self,
        files: Mapping[str, bytes],
        mode: str,
        arguments: Sequence[str],
        *,
        duplex: bool,
        relays: bool,
        session: str,
    ) -> tuple[str, bytes]:
        """Return shell text for another machine, and the input of the boot program, files included."""
        magic = self._code.magic(self._python)
        source = _boot(stays=bool(session))
        boot = self._compiled(magic or OURS, source)
        if self._mentions_tools(files):
            tools = CodeSource(files[STUB].decode(), STUB)
            files = {**files, _CACHE: b"", **self._cached(magic or OURS, _TOOLS, tools)}
        given = {
            "word": self._messages.word,
            "directory": self._directory,
            "files": dict(files),
            "mode": mode,
            "arguments": list(arguments),
            "duplex": duplex,
            "relays": relays,
            "session": session,
            "most": MAX_MESSAGE_BYTES,
            "too_large": TOO_LARGE,
            "magic": "" if boot is None else magic or OURS,
            "boot": boot,
            "source": _portable_source(source) if boot is None or not magic else "",
        }
        read = marshal.dumps(given, 2)
        if not duplex:  # for shell text, where bash needs quadratic time for quotes
            read = b2a_base64(read, newline=False)
        words = f"{PYTHON} -u -c {shlex.quote(_LOADER)}"
        return words, _FIRST % len(read) + read + self._messages.secret.encode()

    def _mentions_tools(self, files: Mapping[str, bytes]) -> bool:
        """Return True if the script may import the tools: most scripts without the name do not."""
        return _TOOLS.encode() in files[SCRIPT]

    def _compiled(self, magic: str, source: CodeSource) -> bytes | None:
        """Return the compiled code of a source for a Python, if available, and record the use."""
        self._used.append(source)
        return self._code.code(magic, source)

    def _cached(self, magic: str, module: str, source: CodeSource) -> dict[str, bytes]:
        """Return the `.pyc` file of a module, if available."""
        code, tag = self._compiled(magic, source), self._code.tag(magic)
        return {f"{_CACHE}{module}.{tag}.pyc": cache_file(code, magic)} if code is not None and tag else {}

    def record_python(self) -> None:
        """Record the magic number of the Python, and have missing code compiled there."""
        if self._messages.chosen == 0:
            self._code.record(self._python, self._messages.magic)
            self._code.compile_in_target(self._env, self._python, self._pythons.search_path, self._used)

    def record_rejection(self) -> bool:
        """Record that the Python could not run the compiled code; True if no source was sent either."""
        had_none = self._code.magic(self._python) != ""
        self._code.drop(self._python, self._messages.magic)
        return had_none

    def failed(self, why: str) -> TerminalError:
        """Return the error for a failed staging."""
        return TerminalError(f"the script could not be written on backend {self._env.settings.env!r}: {why}")


def input_from_file(path: str, given: bytes) -> str:
    """Return shell text that redirects standard input from a file with the boot program's input, for targets without a
    duplex stream."""
    word = shlex.quote(path)
    return (
        f"(umask 077; printf %s {shlex.quote(given.decode('ascii'))} >{word}) || exit\nexec <{word}\nrm -f -- {word}\n"
    )


def remove_here(directory: str, limit: float) -> None:
    """Remove a script's directory on this machine."""
    from environments.local_files import remove_tree

    remove_tree(Path(directory), limit)
