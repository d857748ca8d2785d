"""Source that runs in the target: real modules of ours, shipped as text, and compiled here for Pythons like this."""

from __future__ import annotations
import __future__

import marshal
from functools import cache, lru_cache
from importlib import resources

FUTURE = "from __future__ import annotations\n"


def target_source(file_name: str, package: str = "rpc", **constants: str | int | float) -> str:
    """Return a module as text that can stand in the middle of another module.

    Args:
        file_name: The module's file, such as `"stub_runtime.py"`.
        package: Its package.
        constants: Values for the module's global names, which override what the file gives them.
    """
    lines = [_source(package, file_name)]
    lines += [f"{name} = {value!r}\n" for name, value in constants.items()]
    return "".join(lines)


@cache
def _source(package: str, file_name: str) -> str:
    source = resources.files(package).joinpath(file_name).read_text("utf-8")
    # A future import may only stand at the top of a module, where the stub has its own.
    return source.replace(FUTURE, "", 1)


@lru_cache(maxsize=32)
def compiled(source: str, name: str, *, is_documented: bool = True) -> bytes:
    """Return the marshalled code of a source, for each Python that has this one's magic number.

    Args:
        source: The source. Its future import costs nothing: it is left out, and the compiler is told.
        name: What its file is called in tracebacks.
        is_documented: Whether it keeps its docstrings.
    """
    flags = __future__.annotations.compiler_flag
    text = source.replace(FUTURE, "\n", 1)
    code = compile(text, name, "exec", flags, dont_inherit=True, optimize=-1 if is_documented else 2)
    return marshal.dumps(code)


def cache_file(code: bytes, magic: str) -> bytes:
    """Return a `.pyc` file with marshalled code, which Python takes without a look at the source.

    Args:
        code: The code.
        magic: The magic number of its Python, in hexadecimal digits.
    """
    return bytes.fromhex(magic) + (1).to_bytes(4, "little") + bytes(8) + code
