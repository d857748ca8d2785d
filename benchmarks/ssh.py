"""A host over SSH: this one, by a server of our own on the loopback interface."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.engine import Engine, rows_of
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
Host {host}
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
    """Measure everything over SSH."""
    with contextlib.ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="hermes-benchmark-")))
        start_server(folder, opened)
        env = opened.enter_context(create_environment("ssh", host=HOST, config=str(folder / "client")))
        env.execute("true")
        transport = _connected(folder, opened)
        sftp = transport.open_sftp_client()
        assert sftp
        ssh = ("ssh", "-F", str(folder / "client"), HOST)
        _start_master(ssh, opened)
        yield from rows_of(
            Engine(
                name="SSH",
                env=env,
                bash=ChannelProcess(transport, "bash"),
                cat=ChannelProcess(transport, "cat"),
                each=lambda words: [*ssh, shlex.join(words)],
                each_name="`ssh` with a ControlMaster",
                put=lambda file: sftp.put(str(file), "/var/tmp/hermes-benchmark"),
                put_name="SFTP by paramiko",
                command_goal=2,
            )
        )


def start_server(folder: Path, opened: contextlib.ExitStack) -> int:
    """Start a server on this machine, which ends with `opened`, and return its port.

    Its client's settings are in the folder.
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
        Path("/run/sshd").mkdir(exist_ok=True)  # without which it refuses to start as root
    server = subprocess.Popen([program, "-D", "-f", folder / "server"], stderr=subprocess.DEVNULL)
    opened.callback(server.wait)
    opened.callback(server.terminate)
    for _ in range(100):
        with contextlib.suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
            return port
        time.sleep(0.05)
    raise EnvironmentStartError("sshd does not start")


def _connected(folder: Path, opened: contextlib.ExitStack) -> paramiko.Transport:
    import paramiko

    options = paramiko.SSHConfig.from_path(str(folder / "client")).lookup(HOST)
    client = paramiko.SSHClient()
    client.load_system_host_keys(str(folder / "known_hosts"))
    client.connect(options["hostname"], int(options["port"]), key_filename=options["identityfile"], look_for_keys=False)
    opened.callback(client.close)
    transport = client.get_transport()
    assert transport
    transport.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # type: ignore[union-attr]
    return transport


def _start_master(ssh: tuple[str, ...], opened: contextlib.ExitStack) -> None:
    master = subprocess.Popen([*ssh, "-M", "-N"], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    opened.callback(master.wait)
    opened.callback(master.terminate)
    for _ in range(100):
        if subprocess.run([*ssh, "-O", "check"], capture_output=True, check=False).returncode == 0:
            return
        time.sleep(0.05)
    raise EnvironmentStartError("the ControlMaster does not start")
