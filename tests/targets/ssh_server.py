"""SSH servers for tests: sshd as any user, sshd in a container, and a link that falls silent on demand."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import psutil

from targets.engines import SSHD_IMAGE, require_docker, require_sshd, run_as_root

START_TIMEOUT = 10.0
SFTP_SERVERS = ("/usr/lib/openssh/sftp-server", "/usr/libexec/openssh/sftp-server", "/usr/lib/ssh/sftp-server")


def make_key(path: Path, passphrase: str = "") -> Path:
    """Make a key pair, and return the path of the private key."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase, "-f", path], check=True)
    return path


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def settings_over(settings: Mapping[str, object]) -> dict[str, object]:
    """Return the settings of a backend over SSH, from those of the SSH backend."""
    full = {name if name.startswith("ssh_") else f"ssh_{name}": value for name, value in settings.items()}
    return {"over": "ssh", **full}


class SSHServer:
    """An sshd on this machine, with key login of the current user.

    Args:
        folder: An empty directory for keys and configuration.
        options: More lines of sshd_config, in front of the others.
        login_shell: A shell in place of the user's own.
        sftp: True to offer SFTP.
    """

    def __init__(self, folder: Path, *, options: str = "", login_shell: str | None = None, sftp: bool = True) -> None:
        self._program = require_sshd()
        self.folder = folder
        self.port = free_port()
        self.home = folder / "home"
        self.home.mkdir()
        self.key = make_key(folder / "key")
        make_key(folder / "host_key")
        self.config = folder / "client_config"
        self.config.write_text(f"UserKnownHostsFile {self.known_hosts}\nGlobalKnownHostsFile none\n")
        self._write_config(options, login_shell, sftp)
        self._child: subprocess.Popen[bytes] | None = None

    def _write_config(self, options: str, login_shell: str | None, sftp: bool) -> None:
        authorized = self.folder / "authorized_keys"
        authorized.write_bytes(self.key.with_suffix(".pub").read_bytes())
        lines = [
            options,
            f"ListenAddress 127.0.0.1\nPort {self.port}\nPidFile {self.folder}/pid",
            f"HostKey {self.folder}/host_key\nAuthorizedKeysFile {authorized}",
            "UsePAM no\nStrictModes no\nPasswordAuthentication no\nKbdInteractiveAuthentication no",
            # Without the user's init files, which take up to a third of a second.
            f"SetEnv HOME={self.home} BASH_ENV=/dev/null",
        ]
        if login_shell:
            lines.append(f'ForceCommand {login_shell} -c "$SSH_ORIGINAL_COMMAND"')
        if sftp:
            server = next(path for path in SFTP_SERVERS if Path(path).exists())
            lines.append(f"Subsystem sftp {server}")
        (self.folder / "sshd_config").write_text("\n".join(lines))

    @property
    def known_hosts(self) -> Path:
        return self.folder / "known_hosts"

    @property
    def settings(self) -> dict[str, object]:
        """Settings of `create_environment("ssh", ...)`."""
        return {"host": "127.0.0.1", "port": self.port, "key": str(self.key), "ssh_config": str(self.config)}

    @property
    def over(self) -> dict[str, object]:
        """Settings of a backend whose engine is reached over this server."""
        return settings_over(self.settings)

    def start(self) -> None:
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)
        self._child = subprocess.Popen(
            [self._program, "-D", "-f", self.folder / "sshd_config", "-E", self.folder / "log"],
            stdin=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + START_TIMEOUT
        while time.monotonic() < deadline:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.01)
        raise RuntimeError((self.folder / "log").read_text())

    def kill_connections(self) -> None:
        """Kill the connections' processes, as an out-of-memory killer would. New connections are accepted."""
        for process in self._serving():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()

    @contextlib.contextmanager
    def stalled(self) -> Iterator[None]:
        """Stop the server's processes for the block: old and new connections are silent, as behind a dead link."""
        assert self._child
        processes = [psutil.Process(self._child.pid), *self._serving()]
        for process in processes:
            process.suspend()
        try:
            yield
        finally:
            for process in processes:
                process.resume()

    @property
    def connections(self) -> int:
        """Number of connections. Each has one process, or two of the same name, parent and child."""
        parents = {process.pid: process.info["ppid"] for process in self._serving()}
        return len(parents) - len(parents.keys() & parents.values())

    def _serving(self) -> list[psutil.Process]:
        assert self._child
        below = {process.pid for process in psutil.Process(self._child.pid).children(recursive=True)}
        # Processes that end meanwhile are left out.
        everywhere = psutil.process_iter(["name", "ppid"])
        return [process for process in everywhere if process.pid in below and process.info["name"].startswith("sshd")]

    def stop(self) -> None:
        if self._child:
            self.kill_connections()
            self._child.terminate()
            self._child.wait()
            self._child = None

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.folder)


class SSHContainer:
    """A container with sshd. Root and the user `agent` log in by key, `agent` also by password.

    Args:
        folder: An empty directory for the key and the client's configuration.
    """

    def __init__(self, folder: Path) -> None:
        require_docker().close()
        from testcontainers.core.config import testcontainers_config
        from testcontainers.core.container import DockerContainer
        from testcontainers.core.wait_strategies import LogMessageWaitStrategy

        testcontainers_config.ryuk_disabled = True  # its image needs a registry
        self._key = make_key(folder / "key")
        self._config = folder / "client_config"
        self._config.write_text(f"UserKnownHostsFile {folder}/known_hosts\nGlobalKnownHostsFile none\n")
        options = "-o PasswordAuthentication=yes -o AuthorizedKeysFile='.ssh/authorized_keys /etc/keys/authorized_keys'"
        self._container = (
            DockerContainer(SSHD_IMAGE)
            .with_env("SSH_PUBLIC_KEY", self._key.with_suffix(".pub").read_text())
            .with_command(f"/usr/local/bin/e2e-sshd {options}")
            .with_exposed_ports(22)
            .waiting_for(LogMessageWaitStrategy("Server listening").with_poll_interval(0.05))
        )
        self._container.start()
        self._running = True

    @property
    def settings(self) -> dict[str, object]:
        """Settings of `create_environment("ssh", ...)`, without the user."""
        return {
            "host": self._container.get_container_host_ip(),
            "port": self._container.get_exposed_port(22),
            "key": str(self._key),
            "ssh_config": str(self._config),
        }

    @property
    def over(self) -> dict[str, object]:
        """Settings of a backend whose engine is in the container, without the user."""
        return settings_over(self.settings)

    def run(self, command: str) -> None:
        """Run a shell command in the container as root."""
        run_as_root(self._container.get_wrapped_container().id, command)

    def limit_processes(self, limit: int) -> None:
        """Set the container's process limit. docker-py lacks this option."""
        container = self._container.get_wrapped_container().id
        subprocess.run(["docker", "update", "--pids-limit", str(limit), container], check=True, capture_output=True)

    def set_password(self, user: str, password: str) -> None:
        self.run(f"echo '{user}:{password}' | chpasswd -c SHA512")

    def remove(self) -> None:
        if self._running:
            self._container.stop()
            # testcontainers leaves its sockets to the garbage collector, with a warning in a later test.
            self._container.get_docker_client().client.close()
            self._running = False


class Link:
    """A TCP port that forwards to another port, until `go_silent`."""

    def __init__(self, port: int) -> None:
        self._target = port
        self.turns = 0
        """Round trips: data to the port after data from it."""
        self.connections = 0
        """Connections so far."""
        self._answered = True
        self._silent = threading.Event()
        self._sockets: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._threads: list[threading.Thread] = []
        self._spawn(self._accept)

    def _spawn(self, run: object, *arguments: object) -> None:
        thread = threading.Thread(target=run, args=arguments, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self._target))
            self.connections += 1
            self._sockets += [near, far]
            self._spawn(self._forward, near, far, False)
            self._spawn(self._forward, far, near, True)

    def _forward(self, source: socket.socket, target: socket.socket, answers: bool) -> None:
        try:
            while data := source.recv(65536):
                if not answers and self._answered:
                    self.turns += 1
                self._answered = answers
                if not self._silent.is_set():
                    target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def go_silent(self) -> None:
        """Read and drop all data from now on, with both connections open."""
        self._silent.set()

    def speak(self) -> None:
        """Forward data from now on."""
        self._silent.clear()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for one in self._sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        for thread in self._threads:
            thread.join()
