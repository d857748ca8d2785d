"""Modules for the target: read as text, and compiled for Pythons with the same magic number."""

from __future__ import annotations
import __future__

import marshal
from functools import cache, lru_cache
from importlib import resources

FUTURE = "from __future__ import annotations\n"


def target_source(file_name: str, package: str = "rpc", **constants: str | int | float) -> str:
    """Return a module as text, to be put into the middle of another module.

    Args:
        file_name: File name of the module, such as `"stub_runtime.py"`.
        package: Package of the module.
        constants: Values for global names, replacing those of the file.
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
    """Return the marshalled code of a source, for each Python with this one's magic number.

    Args:
        source: The source. The future import becomes a compiler flag, at no cost in the target.
        name: File name in tracebacks.
        is_documented: True to keep the docstrings.
    """
    flags = __future__.annotations.compiler_flag
    text = source.replace(FUTURE, "\n", 1)
    code = compile(text, name, "exec", flags, dont_inherit=True, optimize=-1 if is_documented else 2)
    return marshal.dumps(code)


def cache_file(code: bytes, magic: str) -> bytes:
    """Return a `.pyc` file with marshalled code, loaded by Python without a look at the source.

    Args:
        code: Marshalled code.
        magic: Magic number of the target's Python, in hexadecimal digits.
    """
    return bytes.fromhex(magic) + (1).to_bytes(4, "little") + bytes(8) + code
