"""A host over SSH: this machine, behind a server of our own on the loopback interface."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.engine import TARGET_FILE, Copying, Engine, Goals, rows_of
from benchmarks.peers.peer import HERMES_AGENT, opened_peers
from benchmarks.table import Row
from environments import EnvironmentStartError, create_environment

if TYPE_CHECKING:
    import paramiko

HOST = "benchmark"
_SERVER = """\
ListenAddress 127.0.0.1
Port {port}
PidFile none
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/key.pub
UsePAM no
StrictModes no
SetEnv HOME={folder} BASH_ENV=/dev/null
Subsystem sftp internal-sftp
"""
_CLIENT = """\
Host {host} 127.0.0.1
  HostName 127.0.0.1
  Port {port}
  IdentityFile {folder}/key
  IdentitiesOnly yes
  UserKnownHostsFile {folder}/known_hosts
  StrictHostKeyChecking accept-new
  ControlPath {folder}/control
"""


class ChannelProcess:
    """A process on a raw channel of paramiko."""

    def __init__(self, transport: paramiko.Transport, program: str) -> None:
        self._channel = transport.open_session()
        self._channel.exec_command(program)

    def round_trip(self, line: bytes) -> bytes:
        """Send a line and wait for the answer."""
        self._channel.sendall(line)
        answer = b""
        while not answer.endswith(b"\n"):
            answer += self._channel.recv(4096)
        return answer


def rows() -> Iterator[Row]:
    """Measure all operations over SSH."""
    with contextlib.ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="hermes-benchmark-")))
        port = start_server(folder, opened)
        env = opened.enter_context(create_environment("ssh", host=HOST, config=str(folder / "client")))
        env.execute("true")
        host = SSHHost(folder, port, opened)
        transport, sftp = host.transport, host.client.open_sftp()
        peers, missing = opened.enter_context(opened_peers({HERMES_AGENT: host.peer_place}))
        bash = ChannelProcess(transport, "bash")
        yield from rows_of(
            Engine(
                name="SSH",
                env=env,
                bash=bash,
                cat=ChannelProcess(transport, "cat"),
                clients=host.ways,
                peers=peers,
                missing=missing,
                goals=Goals(command=1.5, call=1.2),
                copying=Copying(
                    lambda file: sftp.put(str(file), TARGET_FILE),
                    lambda file: sftp.get(TARGET_FILE, str(file)),
                    "SFTP by paramiko",
                ),
            )
        )


class SSHHost:
    """A host over SSH, with other clients: `ssh` with a ControlMaster, and paramiko.

    Args:
        folder: The folder of `start_server`.
        port: The port of the server, or of a link in front.
        opened: Closes the clients at its end.
    """

    def __init__(self, folder: Path, port: int, opened: contextlib.ExitStack) -> None:
        self._folder, self._port = folder, port
        self.client = _connected(folder, port, opened)
        transport = self.client.get_transport()
        assert transport
        self.transport = transport
        self._ssh = ("ssh", "-F", str(folder / "client"), "-p", str(port), HOST)
        _start_master(self._ssh, opened)

    @property
    def ways(self) -> dict[str, Callable[[Sequence[str]], object]]:
        """Runs of a command on the host, by name of the client."""
        return {
            "`ssh`, ControlMaster": lambda words: subprocess.run(
                [*self._ssh, shlex.join(words)], capture_output=True, check=True
            ),
            "paramiko": self._exec_command,
        }

    @property
    def peer_place(self) -> dict[str, object]:
        """The arguments of a peer's place."""
        known = {"host": "127.0.0.1", "port": str(self._port), "user": Path.home().owner()}
        return {"place": "ssh", "ssh": {**known, "key": f"{self._folder}/key", "config": f"{self._folder}/client"}}

    def _exec_command(self, words: Sequence[str]) -> None:
        _, stdout, _ = self.client.exec_command(shlex.join(words))
        stdout.read()
        assert stdout.channel.recv_exit_status() == 0
        stdout.channel.close()


def start_server(folder: Path, opened: contextlib.ExitStack) -> int:
    """Start a server on this machine, and return its port. The server ends with `opened`.

    The client's settings are in the folder.
    """
    program = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if program is None:
        raise EnvironmentStartError("there is no sshd on this machine; install openssh-server")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    for name in ("host_key", "key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    (folder / "server").write_text(_SERVER.format(folder=folder, port=port))
    (folder / "client").write_text(_CLIENT.format(folder=folder, port=port, host=HOST))
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)  # sshd does not start as root without this directory
    server = subprocess.Popen([program, "-D", "-f", folder / "server"], stderr=subprocess.DEVNULL)
    opened.callback(server.wait)
    opened.callback(server.terminate)
    for _ in range(100):
        with contextlib.suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
            return port
        time.sleep(0.05)
    raise EnvironmentStartError("sshd does not start")


def _connected(folder: Path, port: int, opened: contextlib.ExitStack) -> paramiko.SSHClient:
    import paramiko

    options = paramiko.SSHConfig.from_path(str(folder / "client")).lookup(HOST)
    client = paramiko.SSHClient()
    client.load_system_host_keys(str(folder / "known_hosts"))
    client.set_missing_host_key_policy(paramiko.AutoAddPolicy())  # for our own server: a link changes the port
    client.connect(options["hostname"], port, key_filename=options["identityfile"], look_for_keys=False)
    opened.callback(client.close)
    transport = client.get_transport()
    assert transport
    transport.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # type: ignore[union-attr]
    return client


def _start_master(ssh: tuple[str, ...], opened: contextlib.ExitStack) -> None:
    master = subprocess.Popen([*ssh, "-M", "-N"], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    opened.callback(master.wait)
    opened.callback(master.terminate)
    for _ in range(100):
        if subprocess.run([*ssh, "-O", "check"], capture_output=True, check=False).returncode == 0:
            return
        time.sleep(0.05)
    raise EnvironmentStartError("the ControlMaster does not start")
