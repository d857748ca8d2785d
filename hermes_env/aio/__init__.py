"""Asynchronous environments, on asyncio and on trio.

async with AsyncEnvironment("docker") as env:
    print((await env.execute("uname -a")).output)
"""

try:
    import anyio as _anyio  # noqa: F401
except ImportError:
    from environments.extras import missing_library

    raise missing_library("hermes_env.aio", "anyio", "aio") from None

from hermes_env.aio.calls import limit_threads
from hermes_env.aio.environment import (
    AsyncEnvironment,
    AsyncPool,
    AsyncProcess,
    AsyncSession,
    BytesPiece,
    OutputStream,
    TextPiece,
)
from hermes_env.aio.scripts import AsyncPythonSession, aexecute_code

__all__ = [
    "AsyncEnvironment",
    "AsyncPool",
    "AsyncProcess",
    "AsyncPythonSession",
    "AsyncSession",
    "BytesPiece",
    "OutputStream",
    "TextPiece",
    "aexecute_code",
    "limit_threads",
]
