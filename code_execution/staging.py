"""What goes to the target for a script: its files, the boot program, and the command that starts it."""

from __future__ import annotations

import marshal
import shlex
import sys
from binascii import b2a_base64
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from weakref import WeakKeyDictionary

from code_execution import boot_program
from code_execution.boot_program import HELD, SCRIPT
from code_execution.interpreter import PYTHON, Pythons
from code_execution.output import STUB, Messages
from environments.base import BaseEnvironment
from environments.errors import TerminalError
from rpc.messages import MAX_MESSAGE_BYTES
from rpc.relay import TOO_LARGE
from rpc.stub import own_file
from rpc.target_source import FUTURE, cache_file, compiled, target_source

_BOOT = "sitecustomize"
OWN = "own"
QUEUE = "rpc"
_FIRST = b"trap - EXIT;exit;#%9d\n"
"""The line before all that a boot program reads, with its size. If the Python leaves it, the shell takes it for script,
and ends."""
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
exec(d["source"]if d["magic"]!=__import__("_frozen_importlib_external").MAGIC_NUMBER else marshal.loads(d["boot"]),m)
m["main"](d)
"""
"""Reads the boot program and what it needs from the input, and runs it. It is seen in process lists."""

_magic: WeakKeyDictionary[BaseEnvironment, dict[str, str]] = WeakKeyDictionary()
"""The magic numbers of an environment's Pythons, as far as they are known."""


def files_of(code: str, stub: str, token: str, place: str, *, queue: bool) -> dict[str, bytes]:
    """Return the files of a script's directory, by name; a `/` behind a name makes it a directory's, a `|` a pipe's.

    Args:
        code: The script's source.
        stub: That of the module of its tools.
        token: What its calls carry.
        place: Where they go.
        queue: Whether that is the queue in the directory itself.
    """
    files = {SCRIPT: code.encode(), STUB: stub.encode(), OWN: own_file(token, place).encode()}
    if STUB.removesuffix(".py") in code:  # what does not so much as name it mostly does not import it
        files["__pycache__/"] = b""
        name = f"__pycache__/{STUB.removesuffix('.py')}.{sys.implementation.cache_tag}.pyc"
        files[name] = cache_file(compiled(stub, STUB))
    if queue:
        files[f"{QUEUE}/"] = files[f"{QUEUE}/wake|"] = b""
    return files


@cache
def boot_source() -> str:
    """Return the source of the boot program, for any Python."""
    return FUTURE + target_source("boot_program.py", "code_execution")


class Staging:
    """Puts one script into its directory, and says how it is started there.

    Args:
        env: Where it runs.
        directory: Its directory, which does not exist.
        messages: What its start is to say.
        pythons: The candidates for its Python.
    """

    def __init__(self, env: BaseEnvironment, directory: str, messages: Messages, pythons: Pythons) -> None:
        self._env, self._directory, self._messages, self._pythons = env, directory, messages, pythons

    def here(self, files: Mapping[str, bytes], mode: str, arguments: Sequence[str]) -> str:
        """Write the files on this machine, and return shell text: the script's Python and its arguments.

        Raises:
            TerminalError: They cannot be written.
        """
        boot = boot_source()
        begin = {boot_program.BEGIN: f"{self._messages.word} {mode}".encode(), HELD: files[SCRIPT]}
        if self._pythons.candidates[0] == sys.executable:
            begin[f"{_BOOT}.pyc"] = cache_file(compiled(boot, _BOOT, is_documented=False))
        else:
            begin[f"{_BOOT}.py"] = boot.encode()
        try:
            boot_program.stage(self._directory, {name: files[name] for name in files if name != SCRIPT} | begin)
        except OSError as error:
            raise self.failed(str(error)) from error
        return f"{PYTHON} -u {shlex.join([f'{self._directory}/{SCRIPT}', *arguments])}"

    def there(
        self,
        files: Mapping[str, bytes],
        mode: str,
        arguments: Sequence[str],
        *,
        duplex: bool,
        relays: bool,
        session: str,
    ) -> tuple[str, bytes]:
        """Return the same for another machine, and what the boot program reads there: the files too."""
        known = _magic.get(self._env, {}).get(self._pythons.candidates[0], "")
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
            "magic": MAGIC_NUMBER,
            "boot": compiled(boot_source(), "boot", is_documented=False),
            "source": "" if known == MAGIC_NUMBER.hex() else boot_source(),
        }
        read = marshal.dumps(given, 2)
        if not duplex:  # in shell text, which bash reads in the square of its quotes
            read = b2a_base64(read, newline=False)
        words = f"{PYTHON} -u -c {shlex.quote(_LOADER)}"
        return words, _FIRST % len(read) + read + self._messages.secret.encode()

    def note_python(self) -> None:
        """Note which code the Python runs that has begun."""
        messages = self._messages
        if messages.chosen == 0:
            _magic.setdefault(self._env, {})[self._pythons.candidates[0]] = messages.magic

    def failed(self, why: str) -> TerminalError:
        """Return the error for a script that could not be put into the target."""
        return TerminalError(f"the script could not be written on backend {self._env.settings.env!r}: {why}")


def reading_from_file(path: str, given: bytes) -> str:
    """Return shell text whose input from there on is what a boot program reads, where no stream of ours goes to it."""
    word = shlex.quote(path)
    return (
        f"(umask 077; printf %s {shlex.quote(given.decode('ascii'))} >{word}) || exit\nexec <{word}\nrm -f -- {word}\n"
    )


def remove_here(directory: str, limit: float) -> None:
    """Remove a script's directory on this machine."""
    from environments.local_files import remove_tree

    remove_tree(Path(directory), limit)
