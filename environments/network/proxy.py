"""The proxy of a target that has no network: it judges each request, connects for it, and carries bytes.

It runs on the loop thread of this process. In the target there is a program only that takes connections on 127.0.0.1
and hands them over one stream. The host is looked up here, once, and the address that was checked is connected to.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

from environments.errors import EnvironmentStartError
from environments.log import logger
from environments.loop import in_worker, shielded, spawn
from environments.network.channel import Channel, Connection
from environments.network.request import BadRequestError, Request, response_heads
from environments.network.rules import Address, Host, RefusedError, Rules

if TYPE_CHECKING:
    from environments.shell.stream import Stream

HEADER_LIMIT = 30.0
"""Seconds for the head of a request."""
LOOKUP_LIMIT, MOST_LOOKUPS = 20.0, 32
"""Seconds for looking up a name, and how many are looked up at once."""
CONNECT_LIMIT, MOST_ADDRESSES = 10.0, 4
"""Seconds to connect to an address, and how many of a host are tried."""
IDLE_LIMIT = 600.0
"""Seconds without a byte in either direction after which a connection is closed."""
LATE_LIMIT = 2.0
"""The same, once a client that was told to close its connection has sent another request on it."""
START_LIMIT = 20.0
"""Seconds in which the program in the target must be up."""
FIRST_PORT, PORTS = 20_000, 12_000
"""The port that it listens at is one of these; the kernel gives none of them out by itself."""
_PIECE = 65536
_RUN = "import os\nb=b''\nwhile len(b)<{0}:\n p=os.read(0,{0}-len(b))\n if not p: os._exit(0)\n b+=p\nexec(b)"
_FIND = """\
for p in python3 /usr/bin/python3 /usr/local/bin/python3 python /usr/libexec/platform-python {more}; do
  if command -v "$p" >/dev/null 2>&1 && "$p" -IS -c 'import sys; sys.exit(sys.version_info < (3, 8))' 2>/dev/null; then
    exec "$p" -IS -c {run}
  fi
done
exit 127
"""
_STATUS = {400: "Bad Request", 403: "Forbidden", 502: "Bad Gateway", 504: "Gateway Timeout"}

log = logger(__name__)

Lookup = Callable[[str, int], Awaitable[Sequence[Address]]]
"""Returns the addresses of a name. A test has another one."""


async def look_up(name: str, port: int) -> Sequence[Address]:
    """Return the addresses of a name.

    Raises:
        OSError: There is no such name.
    """
    found = await in_worker(lambda: socket.getaddrinfo(name, port, type=socket.SOCK_STREAM))
    addresses = [str(where[0]).partition("%")[0] for _, _, _, _, where in found]
    return [ip_address(text) for text in dict.fromkeys(addresses)]


class _FailedError(Exception):
    """The host cannot be reached."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class NetworkProxy:
    """Lets a target reach the hosts of a list, and no others. Everything but the properties is called on the loop.

    Args:
        hosts: The list.
        note: Called with host and port of each connection that is refused.
        lookup: Looks up names.
    """

    def __init__(self, hosts: Sequence[str], note: Callable[[str, int], object], lookup: Lookup = look_up) -> None:
        self.port = FIRST_PORT + int.from_bytes(os.urandom(4), "big") % PORTS
        """The port that it has in the target, the same in each."""
        self._rules = Rules(hosts)
        self._note, self._lookup = note, lookup
        self._channel: Channel | None = None
        self._starting = asyncio.Lock()
        self._lookups = asyncio.Semaphore(MOST_LOOKUPS)
        self._reached: dict[Connection, tuple[Host, int, Address]] = {}

    @property
    def variables(self) -> Mapping[str, str]:
        """The variables by which programs find it. What runs in the target itself is reached without it."""
        url = f"http://127.0.0.1:{self.port}"
        values = {**dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), url), "NO_PROXY": _DIRECT}
        return {**values, **{name.lower(): value for name, value in values.items()}}

    @property
    def is_up(self) -> bool:
        """True while it takes connections."""
        return self._channel is not None and self._channel.is_up

    # Its start and its end.

    async def start(self, opened: Callable[[str], Awaitable[Stream]], more_pythons: Sequence[str] = ()) -> bool:
        """Start it in the target, unless it runs there.

        Args:
            opened: Starts shell text in the target.
            more_pythons: Where there may be a Python besides the usual places.

        Returns:
            Whether it had to be started.

        Raises:
            EnvironmentStartError: It cannot be started, for want of a Python or because its port is in use.
        """
        async with self._starting:
            if self.is_up:
                return False
            self.stop()
            program = _program() + f"\nmain({self.port})\n".encode()
            run = shlex.quote(_RUN.format(len(program)))
            stream = await opened(_FIND.format(run=run, more=shlex.join(more_pythons)))
            channel = Channel(self._serve)
            channel.attach(stream)
            said, problem = "", "it does not answer"
            try:
                with contextlib.suppress(BrokenPipeError, TimeoutError):
                    stream.write(program)
                    async with asyncio.timeout(START_LIMIT):
                        said = await shielded(channel.ready)
                        problem = said or await _why_ended(stream, channel)
                if said != str(self.port):
                    raise EnvironmentStartError(f"the network by a list of hosts cannot be provided: {problem}")
            except BaseException:
                channel.end()
                raise
            self._channel = channel
            return True

    def stop(self) -> None:
        """End it, and all connections."""
        channel, self._channel = self._channel, None
        if channel:
            channel.end()

    def set_hosts(self, hosts: Sequence[str]) -> None:
        """Let the target reach other hosts from here on. Connections to hosts that are not among them are closed."""
        self._rules = Rules(hosts)
        for connection, (host, port, address) in list(self._reached.items()):
            try:
                self._rules.choose(host, port, [address])
            except RefusedError:
                if self._channel:
                    self._channel.cancel(connection)

    # Its connections.

    async def _serve(self, connection: Connection) -> None:
        try:
            request = await self._request(connection)
            reader, writer = await self._connected(connection, request)
        except BadRequestError as error:
            await _answer(connection, 400, str(error))
        except RefusedError as error:
            await _answer(connection, 403, str(error), f"{request.host} is not in the list of hosts")
        except _FailedError as error:
            await _answer(connection, error.status, str(error))
        except (ConnectionError, TimeoutError, asyncio.IncompleteReadError):
            pass  # it was closed, or sends nothing
        else:
            try:
                await _carry(connection, request, reader, writer)
            finally:
                self._reached.pop(connection, None)
                writer.close()  # behind what was written, which the host may read late or never
                asyncio.get_running_loop().call_later(CONNECT_LIMIT, writer.transport.abort)

    async def _request(self, connection: Connection) -> Request:
        try:
            async with asyncio.timeout(HEADER_LIMIT):
                return Request.parse(await connection.read_until(b"\r\n\r\n"))
        except asyncio.LimitOverrunError:
            raise BadRequestError("the headers are too long") from None

    async def _connected(
        self, connection: Connection, request: Request
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        host, port = request.host, request.port
        try:
            self._rules.check(host, port)
            found = await self._addresses(host, port)
            failed = f"no address of {host} can be reached"
            for address in self._rules.choose(host, port, found)[:MOST_ADDRESSES]:
                try:
                    async with asyncio.timeout(CONNECT_LIMIT):
                        reader, writer = await asyncio.open_connection(str(address), port, limit=_PIECE)
                except OSError as error:  # a time-out is one
                    failed = f"{host}, port {port}, cannot be reached: {error.strerror or 'it does not answer'}"
                    continue
                try:
                    self._rules.choose(host, port, [address])  # the list may be another by now
                except RefusedError:
                    writer.transport.abort()
                    raise
                self._reached[connection] = host, port, address
                return reader, writer
        except RefusedError:
            self._note(str(host), port)
            raise
        raise _FailedError(502, failed)

    async def _addresses(self, host: Host, port: int) -> Sequence[Address]:
        if not isinstance(host, str):
            return [host]
        try:
            async with asyncio.timeout(LOOKUP_LIMIT):
                return await shielded(spawn(self._looked_up(host, port)))
        except TimeoutError:
            raise _FailedError(504, f"{host} could not be looked up in {LOOKUP_LIMIT:.0f} s") from None
        except (OSError, UnicodeError):
            raise _FailedError(502, f"{host} is not known: there is no such name") from None

    async def _looked_up(self, host: str, port: int) -> Sequence[Address]:
        async with self._lookups:  # also behind a time-out: the system's call goes on
            return await self._lookup(host, port)


_DIRECT = "localhost,127.0.0.1,::1"


async def _carry(
    connection: Connection, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Carry bytes in both directions, until both have ended or nothing moves any more."""
    loop, limit = asyncio.get_running_loop(), IDLE_LIMIT

    async def up() -> None:
        nonlocal limit
        if request.is_tunnel:
            while data := await connection.read():
                await sent(data)
            writer.write_eof()
        else:
            await sent(request.head)
            async for data in request.body(connection):
                await sent(data)
            if await connection.read(1):  # another request: it is not sent on, and the host may not close by itself
                limit = LATE_LIMIT
                idle.reschedule(loop.time() + limit)

    async def sent(data: bytes) -> None:
        writer.write(data)
        await writer.drain()
        idle.reschedule(loop.time() + limit)

    async def down() -> None:
        if request.is_tunnel:
            await connection.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            async for head in response_heads(reader):
                await connection.write(head)
        while data := await reader.read(_PIECE):
            await connection.write(data)
            idle.reschedule(loop.time() + limit)
        connection.write_eof()

    try:
        async with asyncio.timeout(IDLE_LIMIT) as idle, asyncio.TaskGroup() as group:
            upwards = group.create_task(up())
            await down()
            if not request.is_tunnel:  # one request a connection: another host is asked for by another
                upwards.cancel()
    except* (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, BadRequestError) as errors:
        log.debug("a connection to %s, port %d, ended: %s", request.host, request.port, errors.exceptions[0])


async def _answer(connection: Connection, status: int, body: str, reason: str = "") -> None:
    """Send an answer of the proxy's own. The reason is what some programs show alone."""
    data = f"hermes-environments: {body}\n".encode("ascii", "replace")
    head = (
        f"HTTP/1.1 {status} {reason or _STATUS[status]}\r\nContent-Type: text/plain\r\n"
        f"Content-Length: {len(data)}\r\nConnection: close\r\n\r\n"
    )
    with contextlib.suppress(ConnectionError, TimeoutError):
        async with asyncio.timeout(HEADER_LIMIT):
            await connection.write(head.encode("ascii", "replace") + data)
    connection.write_eof()


async def _why_ended(stream: Stream, channel: Channel) -> str:
    code = await stream.exit_code(1.0)
    if code == 127:
        return "its proxy needs Python 3.8 or later in the target, and there is none; use an image that has python3"
    return f"its proxy has ended with exit code {code}: {channel.errors[-500:] or 'it says nothing'}"


@cache
def _program() -> bytes:
    return Path(__file__).with_name("proxy_program.py").read_bytes()
