"""The proxy of a target without a network: checks each request against the allow list, connects, and relays bytes.

The proxy runs on the loop thread of this process. In the target, a small program accepts connections on 127.0.0.1 and
sends them over one stream. The host is resolved here, once, and the checked address is the one connected to.
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
from environments.network.allow_list import Address, AllowList, Host, HostRefusedError
from environments.network.multiplexer import Multiplexer, TargetConnection
from environments.network.request import BadRequestError, ProxyRequest, response_heads

if TYPE_CHECKING:
    from environments.shell.stream import Stream

HEADER_LIMIT = 30.0
"""Seconds for the head of a request."""
LOOKUP_LIMIT, MAX_LOOKUPS = 20.0, 32
"""Seconds to resolve a name, and the maximum of lookups at the same time."""
CONNECT_LIMIT, MAX_ADDRESSES = 10.0, 4
"""Seconds to connect to an address, and the maximum of addresses tried for a host."""
IDLE_LIMIT = 600.0
"""Seconds without a byte in either direction until a connection is closed."""
LATE_LIMIT = 2.0
"""The idle limit after a client has ignored `Connection: close` and sent another request."""
START_LIMIT = 20.0
"""Seconds for the start of the program in the target."""
FIRST_PORT, PORTS = 20_000, 12_000
"""Range of the listening port, below the kernel's ephemeral ports."""
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
"""Returns the addresses of a name. Tests use another function."""


async def resolve(name: str, port: int) -> Sequence[Address]:
    """Return the addresses of a name.

    Raises:
        OSError: The name does not exist.
    """
    found = await in_worker(lambda: socket.getaddrinfo(name, port, type=socket.SOCK_STREAM))
    addresses = [str(where[0]).partition("%")[0] for _, _, _, _, where in found]
    return [ip_address(text) for text in dict.fromkeys(addresses)]


class _UnreachableError(Exception):
    """The host cannot be reached."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class NetworkProxy:
    """Lets a target reach the hosts of an allow list, and no others. All methods run on the loop.

    Args:
        hosts: The allow list.
        on_refused: Called with host and port of each refused connection.
        lookup: Resolves names.
    """

    def __init__(
        self, hosts: Sequence[str], on_refused: Callable[[str, int], object], lookup: Lookup = resolve
    ) -> None:
        self.port = FIRST_PORT + int.from_bytes(os.urandom(4), "big") % PORTS
        """The listening port in the target, the same in each target."""
        self._allow_list = AllowList(hosts)
        self._on_refused, self._lookup = on_refused, lookup
        self._multiplexer: Multiplexer | None = None
        self._starting = asyncio.Lock()
        self._lookups = asyncio.Semaphore(MAX_LOOKUPS)
        self._open_connections: dict[TargetConnection, tuple[Host, int, Address]] = {}

    @property
    def variables(self) -> Mapping[str, str]:
        """The proxy variables for programs. Servers in the target are reached without the proxy."""
        url = f"http://127.0.0.1:{self.port}"
        values = {**dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), url), "NO_PROXY": _DIRECT}
        return {**values, **{name.lower(): value for name, value in values.items()}}

    @property
    def is_up(self) -> bool:
        """True while the proxy accepts connections."""
        return self._multiplexer is not None and self._multiplexer.is_up

    # Start and end.

    async def start(self, open_stream: Callable[[str], Awaitable[Stream]], more_pythons: Sequence[str] = ()) -> bool:
        """Start the proxy program in the target, unless it is running.

        Args:
            open_stream: Starts shell text in the target.
            more_pythons: Paths of Python besides the usual ones.

        Returns:
            True if the program was started.

        Raises:
            EnvironmentStartError: The target has no Python, or the port is in use.
        """
        async with self._starting:
            if self.is_up:
                return False
            self.stop()
            program = _program() + f"\nmain({self.port})\n".encode()
            run = shlex.quote(_RUN.format(len(program)))
            stream = await open_stream(_FIND.format(run=run, more=shlex.join(more_pythons)))
            multiplexer = Multiplexer(self._serve)
            multiplexer.attach(stream)
            report, problem = "", "it does not answer"
            try:
                with contextlib.suppress(BrokenPipeError, TimeoutError):
                    stream.write(program)
                    async with asyncio.timeout(START_LIMIT):
                        report = await shielded(multiplexer.ready)
                        problem = report or await _failure_reason(stream, multiplexer)
                if report != str(self.port):
                    raise EnvironmentStartError(f"the network by a list of hosts cannot be provided: {problem}")
            except BaseException:
                multiplexer.end()
                raise
            self._multiplexer = multiplexer
            return True

    def stop(self) -> None:
        """End the program, and all connections."""
        multiplexer, self._multiplexer = self._multiplexer, None
        if multiplexer:
            multiplexer.end()

    def set_hosts(self, hosts: Sequence[str]) -> None:
        """Replace the allow list. Open connections to hosts that are no longer allowed are closed."""
        self._allow_list = AllowList(hosts)
        for connection, (host, port, address) in list(self._open_connections.items()):
            try:
                self._allow_list.allowed_addresses(host, port, [address])
            except HostRefusedError:
                if self._multiplexer:
                    self._multiplexer.cancel(connection)

    # Connections.

    async def _serve(self, connection: TargetConnection) -> None:
        try:
            request = await self._read_request(connection)
            reader, writer = await self._connect(connection, request)
        except BadRequestError as error:
            await _send_error(connection, 400, str(error))
        except HostRefusedError as error:
            await _send_error(connection, 403, str(error), f"{request.host} is not in the list of hosts")
        except _UnreachableError as error:
            await _send_error(connection, error.status, str(error))
        except (ConnectionError, TimeoutError, asyncio.IncompleteReadError):
            pass  # closed, or no request in time
        else:
            try:
                await _relay(connection, request, reader, writer)
            finally:
                self._open_connections.pop(connection, None)
                writer.close()  # closes after all data; a host may read late or never
                asyncio.get_running_loop().call_later(CONNECT_LIMIT, writer.transport.abort)

    async def _read_request(self, connection: TargetConnection) -> ProxyRequest:
        try:
            async with asyncio.timeout(HEADER_LIMIT):
                return ProxyRequest.parse(await connection.read_until(b"\r\n\r\n"))
        except asyncio.LimitOverrunError:
            raise BadRequestError("the headers are too long") from None

    async def _connect(
        self, connection: TargetConnection, request: ProxyRequest
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        host, port = request.host, request.port
        try:
            self._allow_list.check(host, port)
            found = await self._addresses(host, port)
            failed = f"no address of {host} can be reached"
            for address in self._allow_list.allowed_addresses(host, port, found)[:MAX_ADDRESSES]:
                try:
                    async with asyncio.timeout(CONNECT_LIMIT):
                        reader, writer = await asyncio.open_connection(str(address), port, limit=_PIECE)
                except OSError as error:  # includes TimeoutError
                    failed = f"{host}, port {port}, cannot be reached: {error.strerror or 'it does not answer'}"
                    continue
                try:
                    self._allow_list.allowed_addresses(host, port, [address])  # the allow list may have changed
                except HostRefusedError:
                    writer.transport.abort()
                    raise
                self._open_connections[connection] = host, port, address
                return reader, writer
        except HostRefusedError:
            self._on_refused(str(host), port)
            raise
        raise _UnreachableError(502, failed)

    async def _addresses(self, host: Host, port: int) -> Sequence[Address]:
        if not isinstance(host, str):
            return [host]
        try:
            async with asyncio.timeout(LOOKUP_LIMIT):
                return await shielded(spawn(self._resolve(host, port)))
        except TimeoutError:
            raise _UnreachableError(504, f"{host} could not be looked up in {LOOKUP_LIMIT:.0f} s") from None
        except (OSError, UnicodeError):
            raise _UnreachableError(502, f"{host} is not known: there is no such name") from None

    async def _resolve(self, host: str, port: int) -> Sequence[Address]:
        async with self._lookups:  # held after a time-out too, as the system call runs on
            return await self._lookup(host, port)


_DIRECT = "localhost,127.0.0.1,::1"


async def _relay(
    connection: TargetConnection, request: ProxyRequest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Relay bytes in both directions, until both have ended or the idle limit has passed."""
    loop, limit = asyncio.get_running_loop(), IDLE_LIMIT

    async def upload() -> None:
        nonlocal limit
        if request.is_tunnel:
            while data := await connection.read():
                await send(data)
            writer.write_eof()
        else:
            await send(request.head)
            async for data in request.body(connection):
                await send(data)
            if await connection.read(1):  # another request: it is not forwarded, and the host may keep the connection
                limit = LATE_LIMIT
                idle.reschedule(loop.time() + limit)

    async def send(data: bytes) -> None:
        writer.write(data)
        await writer.drain()
        idle.reschedule(loop.time() + limit)

    async def download() -> None:
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
            upload_task = group.create_task(upload())
            await download()
            if not request.is_tunnel:  # one request a connection, since the next may be for another host
                upload_task.cancel()
    except* (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, BadRequestError) as errors:
        log.debug("a connection to %s, port %d, ended: %s", request.host, request.port, errors.exceptions[0])


async def _send_error(connection: TargetConnection, status: int, body: str, reason: str = "") -> None:
    """Send an error response of the proxy. Some programs show only the reason phrase."""
    data = f"hermes-environments: {body}\n".encode("ascii", "replace")
    head = (
        f"HTTP/1.1 {status} {reason or _STATUS[status]}\r\nContent-Type: text/plain\r\n"
        f"Content-Length: {len(data)}\r\nConnection: close\r\n\r\n"
    )
    with contextlib.suppress(ConnectionError, TimeoutError):
        async with asyncio.timeout(HEADER_LIMIT):
            await connection.write(head.encode("ascii", "replace") + data)
    connection.write_eof()


async def _failure_reason(stream: Stream, multiplexer: Multiplexer) -> str:
    code = await stream.exit_code(1.0)
    if code == 127:
        return "its proxy needs Python 3.8 or later in the target, and there is none; use an image with python3"
    return f"its proxy has ended with exit code {code}: {multiplexer.errors[-500:] or 'no message'}"


@cache
def _program() -> bytes:
    return Path(__file__).with_name("proxy_program.py").read_bytes()
