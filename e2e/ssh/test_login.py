"""SSH connections: address of the host, host keys and login."""

from __future__ import annotations

import getpass
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from targets.ssh_server import SSHServer, make_key

from environments import EnvironmentStartError, create_environment
from environments.conformance.check import wait_until
from environments.ssh import SSHEnvironment


@dataclass
class Client:
    """A user of this machine with their own key, configuration and known hosts."""

    server: SSHServer
    key: Path
    config: Path
    known_hosts: Path

    def connect(self, **settings: object) -> SSHEnvironment:
        own = {"key": str(self.key), "ssh_config": str(self.config)}
        env = create_environment("ssh", **{**self.server.settings, **own, **settings})
        assert isinstance(env, SSHEnvironment)
        return env

    def error(self, **settings: object) -> str:
        """Return the error of a failing start."""
        with self.connect(**settings) as env, pytest.raises(EnvironmentStartError) as caught:
            env.execute("true")
        return str(caught.value)

    def works(self, **settings: object) -> bool:
        with self.connect(**settings) as env:
            return env.execute("echo in").output == "in\n"

    def configure(self, lines: str) -> None:
        with self.config.open("a") as file:
            file.write(lines)

    def protect(self, passphrase: str) -> None:
        subprocess.run(["ssh-keygen", "-q", "-p", "-N", passphrase, "-P", "", "-f", self.key], check=True)


@pytest.fixture
def client(server: SSHServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Client:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    for suffix in ("", ".pub"):
        shutil.copy(f"{server.key}{suffix}", tmp_path / f"key{suffix}")
    made = Client(server, tmp_path / "key", tmp_path / "config", tmp_path / "known_hosts")
    made.configure(f"UserKnownHostsFile {made.known_hosts}\nGlobalKnownHostsFile none\n")
    return made


# Host keys.


def test_the_key_of_an_unknown_host_is_added_and_logged_once_and_nothing_else_changes(client: Client, caplog) -> None:
    client.known_hosts.write_text("# mine\n@revoked other ssh-ed25519 AAAA")
    assert client.works() and client.works()
    before, added = client.known_hosts.read_text().split("AAAA\n")
    assert before == "# mine\n@revoked other ssh-ed25519 "
    kind, key, *_ = (client.server.folder / "host_key.pub").read_text().split()
    assert added == f"[127.0.0.1]:{client.server.port} {kind} {key}\n"
    shown = subprocess.check_output(["ssh-keygen", "-lf", client.server.folder / "host_key.pub"], text=True)
    [warning] = [record.getMessage() for record in caplog.records if "unknown host" in record.getMessage()]
    assert shown.split()[1] in warning and warning.endswith(f"added to {client.known_hosts}")


def test_known_hosts_that_cannot_be_written_are_a_warning(client: Client, caplog) -> None:
    client.configure("HostKeyAlias elsewhere\n")
    client.known_hosts.mkdir()
    assert client.works()
    assert f"not added to {client.known_hosts} (Is a directory)" in caplog.text


def test_a_changed_host_key_is_refused_with_the_command_that_removes_the_old_one(
    client: Client, tmp_path: Path
) -> None:
    for kind in ("ed25519", "ecdsa"):
        subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-f", tmp_path / kind], check=True)
        known = f"[127.0.0.1]:{client.server.port} {(tmp_path / kind).with_suffix('.pub').read_text()}"
        client.known_hosts.write_text(known)
        error = client.error()
        assert "has changed" in error and error.count("SHA256:") == 2, kind
        assert f"ssh-keygen -R '[127.0.0.1]:{client.server.port}' -f {client.known_hosts}" in error
        assert client.known_hosts.read_text() == known


def test_strict_checking_refuses_an_unknown_host(client: Client) -> None:
    client.configure("StrictHostKeyChecking yes\n")
    assert "StrictHostKeyChecking is on" in client.error()
    assert not client.known_hosts.exists()


def test_a_host_key_is_looked_up_under_its_alias(client: Client) -> None:
    client.configure("HostKeyAlias cluster\n")
    assert client.works()
    assert client.known_hosts.read_text().startswith("cluster ssh-ed25519 ")


# Logging in.


def test_a_passphrase_opens_a_key_and_is_ignored_for_an_open_key(client: Client) -> None:
    assert client.works(passphrase="open sesame")
    client.protect("open sesame")
    assert client.works(passphrase="open sesame")
    assert "set TERMINAL_SSH_PASSPHRASE" in client.error()
    error = client.error(passphrase="open barley", password="swordfish")
    assert f"TERMINAL_SSH_PASSPHRASE does not open the key {client.key}" in error
    assert "barley" not in error and "swordfish" not in error


def test_a_refused_login_names_the_setting(client: Client, tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("remember the milk")
    other = make_key(tmp_path / "other")
    rows = {
        None: ("nothing to log in with", "TERMINAL_SSH_KEY", "SSH_AUTH_SOCK is not set"),
        f"{client.key}.pub": (f"{client.key}.pub is the public half", f"to the private half, {client.key}"),
        str(tmp_path / "notes"): (f"{tmp_path}/notes is no private key",),
        str(other): ("refused the login", str(other), "TERMINAL_SSH_KEY"),
    }
    for key, words in rows.items():
        error = client.error(key=key)
        assert [word for word in words if word not in error] == [], error
        assert other.read_text().splitlines()[1] not in error
    (tmp_path / ".ssh").mkdir()
    usual = make_key(tmp_path / ".ssh" / "id_ed25519", "open sesame")
    assert f"ssh-add {usual}" in client.error(key=None)


@pytest.fixture
def agent(client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Start an SSH agent without keys."""
    socket = tmp_path / "agent"
    process = subprocess.Popen(["ssh-agent", "-D", "-a", socket], stdout=subprocess.DEVNULL)
    assert wait_until(socket.exists, 30)
    monkeypatch.setenv("SSH_AUTH_SOCK", str(socket))
    yield
    process.terminate()
    process.wait()


@pytest.mark.usefixtures("agent")
def test_an_agent_without_keys_is_named_and_one_with_the_key_is_used(client: Client) -> None:
    assert "the agent, which has none" in client.error(key=None)
    subprocess.run(["ssh-add", "-q", client.key], check=True)
    assert client.works(key=None)


# Finding the server.


def test_a_host_name_that_does_not_exist_is_a_clear_error(client: Client) -> None:
    error = client.error(host="no-such-host.invalid")
    assert "no-such-host.invalid" in error and "check TERMINAL_SSH_HOST" in error


def test_the_clients_configuration_names_a_host_and_a_setting_overrides_it(client: Client, tmp_path: Path) -> None:
    port = client.server.port
    (tmp_path / "included").write_text(f"Host box\n  Port {port}\nHost other\n  Port 1\n")
    client.configure(f"Include {tmp_path}/inc*\nHost box\n  HostName 127.0.0.1\n  IdentityFile {client.key}\n")
    with create_environment("ssh", host="box", ssh_config=str(client.config)) as env:
        assert env.execute("echo in").output == "in\n"
    client.configure("Host *\n  Port 1\n  User nobody\n")
    assert client.works(user=getpass.getuser())


def test_proxy_jump_leads_through_another_host(client: Client, start_server) -> None:
    target = start_server(options="AllowTcpForwarding no")
    client.configure(
        f"Host target\n  HostName 127.0.0.1\n  Port {target.port}\n  IdentityFile {target.key}\n  ProxyJump jump\n"
        f"Host jump\n  HostName 127.0.0.1\n  Port {client.server.port}\n  IdentityFile {client.key}\n"
        "Host *\n  ProxyJump jump\n"
    )
    with create_environment("ssh", host="target", ssh_config=str(client.config)) as env:
        assert env.execute("echo in").output == "in\n"
        assert target.connections == 1
        assert len(client.known_hosts.read_text().splitlines()) == 2


def test_proxy_command_leads_to_the_host_or_its_end_is_an_error(client: Client, tmp_path: Path) -> None:
    options = f"-F none -i {client.key} -p {client.server.port} -o UserKnownHostsFile={tmp_path}/known"
    client.configure(
        f"ProxyCommand ssh {options} -o StrictHostKeyChecking=no -o LogLevel=ERROR -W %h:%p %r@127.0.0.1\n"
    )
    assert client.works(user=getpass.getuser())
    client.config.write_text(f"{client.config.read_text().partition('ProxyCommand')[0]}ProxyCommand false\n")
    assert "cannot connect" in client.error()
