"""Source that runs in the target: real modules of this package, shipped as text inside the stub."""

from __future__ import annotations

from functools import cache
from importlib import resources

_FUTURE = "from __future__ import annotations\n"


def target_source(file_name: str, **constants: str | int | float) -> str:
    """Return a module of this package as text that can stand in the middle of another module.

    Args:
        file_name: The module's file, such as `"stub_runtime.py"`.
        constants: Values for the module's global names, which override what the file gives them.
    """
    lines = [_source(file_name)]
    lines += [f"{name} = {value!r}\n" for name, value in constants.items()]
    return "".join(lines)


@cache
def _source(file_name: str) -> str:
    source = resources.files("rpc").joinpath(file_name).read_text("utf-8")
    # A future import may only stand at the top of a module, where the stub has its own.
    return source.replace(_FUTURE, "", 1)
