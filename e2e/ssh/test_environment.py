"""What is particular to SSH, on real servers. The contract itself is in test_conformance."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import paramiko
import pytest
from targets.ssh_server import Link, SSHContainer, SSHServer, make_key

from environments import (
    BaseEnvironment,
    EnvironmentLostError,
    EnvironmentStartError,
    SettingsError,
    create_environment,
    load_settings,
)
from environments.conformance.check import wait_until
from environments.shell.lifecycle import Stage
from environments.ssh import SSHEnvironment
from environments.ssh import link as ssh_link
from environments.ssh.stream import remote_command

StartServer = Callable[..., SSHServer]
LOGIN_SHELLS = [shell for shell in ("bash", "dash", "csh", "tcsh", "fish", "zsh") if shutil.which(shell)]


@pytest.fixture
def start_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartServer]:
    servers: list[SSHServer] = []

    def start(**options: object) -> SSHServer:
        server = SSHServer(tmp_path_factory.mktemp("sshd"), **options)  # type: ignore[arg-type]
        servers.append(server)
        server.start()
        return server

    yield start
    for server in servers:
        server.remove()


@pytest.fixture
def server(start_server: StartServer) -> SSHServer:
    return start_server()


@pytest.fixture
def link(server: SSHServer) -> Iterator[Link]:
    link = Link(server.port)
    yield link
    link.close()


@pytest.fixture
def sshd_container(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SSHContainer]:
    container = SSHContainer(tmp_path_factory.mktemp("container"))
    yield container
    container.remove()


def connect(server: SSHServer, **settings: object) -> SSHEnvironment:
    return SSHEnvironment(load_settings("ssh", **{**server.settings, **settings}))


def start_error(server: SSHServer, **settings: object) -> str:
    with connect(server, **settings) as env, pytest.raises(EnvironmentStartError) as caught:
        env.execute("true")
    return str(caught.value)


# Host keys.


def test_the_key_of_an_unknown_host_is_added_once_and_nothing_else_changes(server: SSHServer) -> None:
    server.known_hosts.write_text("# mine\n@revoked other ssh-ed25519 AAAA")
    for _ in range(2):
        with connect(server) as env:
            assert env.execute("echo in").output == "in\n"
    before, added = server.known_hosts.read_text().split("AAAA\n")
    assert before == "# mine\n@revoked other ssh-ed25519 "
    kind, key, *_ = (server.folder / "host_key.pub").read_text().split()
    assert added == f"[127.0.0.1]:{server.port} {kind} {key}\n"


def test_a_changed_host_key_is_refused_with_the_command_that_removes_the_old_one(server: SSHServer) -> None:
    with connect(server) as env:
        env.execute("true")
    server.stop()
    server.new_host_key()
    server.start()
    known = server.known_hosts.read_text()
    error = start_error(server)
    assert "has changed" in error and error.count("SHA256:") == 2
    assert f"ssh-keygen -R '[127.0.0.1]:{server.port}' -f {server.known_hosts}" in error
    assert server.known_hosts.read_text() == known
    assert (
        "Accepted"
        not in (server.folder / "log").read_text().partition("Server listening")[2].rpartition("listening")[2]
    )


def test_a_host_key_of_another_kind_is_a_changed_one(server: SSHServer, tmp_path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ecdsa", "-N", "", "-f", tmp_path / "old"], check=True)
    server.known_hosts.write_text(f"[127.0.0.1]:{server.port} {(tmp_path / 'old.pub').read_text()}")
    assert "has changed" in start_error(server)


def test_strict_checking_refuses_an_unknown_host(server: SSHServer) -> None:
    server.config.write_text(f"{server.config.read_text()}StrictHostKeyChecking yes\n")
    assert "StrictHostKeyChecking is on" in start_error(server)
    assert not server.known_hosts.exists()


def test_a_host_key_is_looked_up_under_its_alias(server: SSHServer) -> None:
    server.config.write_text(f"{server.config.read_text()}HostKeyAlias cluster\n")
    with connect(server) as env:
        env.execute("true")
    assert server.known_hosts.read_text().startswith("cluster ssh-ed25519 ")


# Logging in.


def test_a_key_with_a_passphrase_works_with_it(server: SSHServer) -> None:
    protect(server.key, "open sesame")
    with connect(server, passphrase="open sesame") as env:
        assert env.execute("echo in").output == "in\n"


def test_a_key_with_a_passphrase_says_what_is_missing(server: SSHServer) -> None:
    protect(server.key, "open sesame")
    assert "set TERMINAL_SSH_PASSPHRASE" in start_error(server)


def test_a_wrong_passphrase_is_an_error_without_it(server: SSHServer) -> None:
    protect(server.key, "open sesame")
    error = start_error(server, passphrase="open barley", password="swordfish")
    assert f"TERMINAL_SSH_PASSPHRASE does not open the key {server.key}" in error
    assert "barley" not in error and "swordfish" not in error


def test_a_passphrase_that_is_not_needed_does_no_harm(server: SSHServer) -> None:
    with connect(server, passphrase="open sesame") as env:
        assert env.execute("echo in").output == "in\n"


def test_without_any_key_it_says_how_to_give_one(
    server: SSHServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    error = start_error(server, key=None)
    assert "nothing to log in with" in error and "TERMINAL_SSH_KEY" in error and "SSH_AUTH_SOCK is not set" in error


def test_the_public_half_of_a_key_is_called_so(server: SSHServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    error = start_error(server, key=f"{server.key}.pub")
    assert f"{server.key}.pub is the public half" in error and f"to the private one, {server.key}" in error


def test_a_file_that_is_no_key_is_called_so(server: SSHServer, tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("remember the milk")
    assert f"{tmp_path}/notes is no private key" in start_error(server, key=str(tmp_path / "notes"))


def test_a_usual_key_with_a_passphrase_is_named(
    server: SSHServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    (tmp_path / ".ssh").mkdir()
    key = make_key(tmp_path / ".ssh" / "id_ed25519", "open sesame")
    assert f"ssh-add {key}" in start_error(server, key=None)


@pytest.mark.parametrize(
    ("host", "instead"),
    [
        ("root@example.org", "TERMINAL_SSH_HOST=example.org TERMINAL_SSH_USER=root"),
        ("example.org:2222", "TERMINAL_SSH_HOST=example.org TERMINAL_SSH_PORT=2222"),
        ("ssh://me@[::1]:22", "TERMINAL_SSH_HOST=::1 TERMINAL_SSH_USER=me TERMINAL_SSH_PORT=22"),
    ],
)
def test_a_host_with_its_user_or_port_is_refused_with_what_to_set(host: str, instead: str) -> None:
    with create_environment("ssh", host=host) as env, pytest.raises(SettingsError) as caught:
        env.execute("true")
    assert str(caught.value).endswith(f"set {instead}")


def protect(key: Path, passphrase: str) -> None:
    subprocess.run(["ssh-keygen", "-q", "-p", "-N", passphrase, "-P", "", "-f", key], check=True)


def test_a_key_that_is_not_authorized_is_named_in_the_error(server: SSHServer, tmp_path: Path) -> None:
    other = make_key(tmp_path / "other")
    error = start_error(server, key=str(other))
    assert "refused the login" in error and str(other) in error and "TERMINAL_SSH_KEY" in error
    assert other.read_text().splitlines()[1] not in error


def test_a_key_that_is_not_there_is_an_error(server: SSHServer) -> None:
    with connect(server, key="/no/such/key") as env, pytest.raises(SettingsError, match="/no/such/key"):
        env.execute("true")


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An agent without keys, for a user without keys."""
    monkeypatch.setenv("HOME", str(tmp_path))
    socket = tmp_path / "agent"
    process = subprocess.Popen(["ssh-agent", "-D", "-a", socket], stdout=subprocess.DEVNULL)
    assert wait_until(socket.exists)
    monkeypatch.setenv("SSH_AUTH_SOCK", str(socket))
    yield
    process.terminate()
    process.wait()


@pytest.mark.usefixtures("agent")
def test_the_agent_has_the_key(server: SSHServer) -> None:
    subprocess.run(["ssh-add", "-q", server.key], check=True)
    with connect(server, key=None) as env:
        assert env.execute("echo in").output == "in\n"


@pytest.mark.usefixtures("agent")
def test_an_agent_without_keys_is_named(server: SSHServer) -> None:
    assert "the agent, which holds none" in start_error(server, key=None)


# Finding the server.


def test_a_host_is_needed() -> None:
    with create_environment("ssh") as env, pytest.raises(SettingsError, match="TERMINAL_SSH_HOST"):
        env.execute("true")


def test_a_port_where_nothing_listens_is_a_clear_error(server: SSHServer) -> None:
    server.stop()
    assert "nothing listens there; check TERMINAL_SSH_PORT" in start_error(server)


def test_a_host_name_that_does_not_exist_is_a_clear_error(server: SSHServer) -> None:
    error = start_error(server, host="no-such-host.invalid")
    assert "no-such-host.invalid" in error and "check TERMINAL_SSH_HOST" in error


def test_a_server_that_does_not_speak_ssh_is_a_clear_error(
    server: SSHServer, link: Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssh_link, "CONNECT_TIMEOUT", 0.5)
    link.go_silent()
    assert "check that an SSH server answers there" in start_error(server, port=link.port)


def test_the_clients_configuration_says_where_a_host_is(server: SSHServer, tmp_path: Path) -> None:
    (tmp_path / "included").write_text(f"Host box\n  Port {server.port}\nHost other\n  Port 1\n")
    server.config.write_text(
        f"Include {tmp_path}/inc*\nHost box\n  HostName 127.0.0.1\n  IdentityFile {server.key}\n"
        f"  UserKnownHostsFile {server.known_hosts}\n"
    )
    with create_environment("ssh", host="box", ssh_config=str(server.config)) as env:
        assert env.execute("echo in").output == "in\n"


def test_a_setting_goes_before_the_clients_configuration(server: SSHServer) -> None:
    server.config.write_text(f"{server.config.read_text()}Host *\n  Port 1\n  User nobody\n")
    with connect(server, user=whoami()) as env:
        assert env.execute("echo in").output == "in\n"


def test_a_configuration_that_is_not_there_is_an_error(server: SSHServer) -> None:
    with connect(server, ssh_config="/no/such") as env, pytest.raises(SettingsError, match="TERMINAL_SSH_CONFIG"):
        env.execute("true")


def test_proxy_jump_leads_through_another_host(start_server: StartServer) -> None:
    jump = start_server()
    target = start_server(options="AllowTcpForwarding no")
    target.config.write_text(
        f"Host target\n  HostName 127.0.0.1\n  Port {target.port}\n  IdentityFile {target.key}\n  ProxyJump jump\n"
        f"Host jump\n  HostName 127.0.0.1\n  Port {jump.port}\n  IdentityFile {jump.key}\n"
        f"Host *\n  UserKnownHostsFile {target.known_hosts}\n  ProxyJump jump\n"
    )
    with create_environment("ssh", host="target", ssh_config=str(target.config)) as env:
        assert env.execute("echo in").output == "in\n"
        assert (jump.connections, target.connections) == (1, 1)
        assert len(target.known_hosts.read_text().splitlines()) == 2
    assert "ssh" not in " ".join(thread.name for thread in threading.enumerate())


def test_proxy_command_leads_to_the_host(server: SSHServer, tmp_path: Path) -> None:
    options = f"-F none -i {server.key} -p {server.port} -o UserKnownHostsFile={tmp_path}/known"
    server.config.write_text(
        f"{server.config.read_text()}"
        f"ProxyCommand ssh {options} -o StrictHostKeyChecking=no -o LogLevel=ERROR -W %h:%p %r@127.0.0.1\n"
    )
    with connect(server, user=whoami()) as env:
        assert env.execute("echo in").output == "in\n"
        assert server.connections == 2


def test_a_proxy_command_that_ends_is_a_clear_error(server: SSHServer) -> None:
    server.config.write_text(f"{server.config.read_text()}ProxyCommand false\n")
    assert "cannot connect" in start_error(server)


def whoami() -> str:
    return subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()


# What is on the other side.


@pytest.mark.parametrize("shell", LOGIN_SHELLS)
def test_the_login_shell_may_be_any(shell: str, start_server: StartServer, tmp_path: Path) -> None:
    server = start_server(login_shell=shell)
    with connect(server) as env:
        assert env.execute("cd /tmp; export A='it is !$ \\'; echo \"$A\"").output == "it is !$ \\\n"
        assert env.execute('echo "$PWD $A"').output == "/tmp it is !$ \\\n"
        process = env.start("tty >/dev/null && echo on a terminal", pty=True)
        assert process.wait(30) == 0
        assert "on a terminal" in process.read()
        env.write_bytes(str(tmp_path / "large"), b"x" * 1_000_000)
        assert (tmp_path / "large").stat().st_size == 1_000_000


def test_what_the_login_shell_gets_is_plain_for_all_shells() -> None:
    command = remote_command(["/bin/sh", "-c", "a\n!b 'c' \\ $d `e` é%", "\udcff"])
    quoted = command.split("'")[3]
    assert not set(quoted) & set('\n!$`"%') and quoted.isascii()
    assert command.count("'") == 4
    unpacked = subprocess.run(["printf", "%b", quoted], capture_output=True, check=True).stdout
    assert unpacked == b"exec /bin/sh -c 'a\n!b '\"'\"'c'\"'\"' \\ $d `e` \xc3\xa9%' '\xff'"


def test_a_user_without_a_writable_home_can_work(start_server: StartServer, tmp_path: Path) -> None:
    server = start_server(options="SetEnv HOME=/proc/no-home", login_shell="cd /proc && sh")
    with connect(server) as env:
        assert env.execute("pwd; echo $HOME").output == "/proc\n/proc/no-home\n"
        assert env.execute("cat", stdin="some input").output == "some input"
        local = tmp_path / "file"
        local.write_bytes(os.urandom(200_000))
        env.put_file(local, tmp_path / "copy")
        assert env.read_bytes(str(tmp_path / "copy")) == local.read_bytes()


def test_a_login_shell_that_prints_a_greeting_does_no_harm(start_server: StartServer, tmp_path: Path) -> None:
    with connect(start_server(login_shell="echo Welcome to this host; bash")) as env:
        assert env.execute("echo in").output == "in\n"
        process = env.start("tty -s && echo on a terminal", pty=True)
        assert process.wait(30) == 0
        assert process.read().strip() == "on a terminal"
        env.write_bytes(str(tmp_path / "file"), b"x" * 200_000)  # which is too much of a greeting for SFTP
        assert env.read_bytes(str(tmp_path / "file")) == b"x" * 200_000


def test_a_file_keeps_its_mode_and_its_link_and_is_never_seen_half(server: SSHServer, tmp_path: Path) -> None:
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_text("old")
    file.chmod(0o600)
    link.symlink_to("file")
    with connect(server, cwd=str(tmp_path)) as env:
        env.write_bytes("link", b"new")
        env.write_bytes("deeper/down/\udcff", b"odd name")
        assert env.read_bytes("deeper/down/\udcff") == b"odd name"
        assert env.read_bytes("/proc/self/status").startswith(b"Name:")
    assert link.is_symlink() and file.read_text() == "new"
    assert file.stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["deeper", "file", "link"]


def test_files_travel_through_the_shell_where_there_is_no_sftp(start_server: StartServer, tmp_path: Path) -> None:
    server = start_server(sftp=False)
    local = tmp_path / "local"
    local.write_bytes(os.urandom(300_000))
    local.chmod(0o750)
    with connect(server) as env:
        env.put_file(local, tmp_path / "remote")
        assert (tmp_path / "remote").stat().st_mode & 0o777 == 0o750
        env.get_file(tmp_path / "remote", tmp_path / "back")
        assert (tmp_path / "back").read_bytes() == local.read_bytes()
        assert server.connections == 1
        with pytest.raises(FileNotFoundError):
            env.get_file(tmp_path / "missing", tmp_path / "back")


def test_nothing_is_left_of_a_file_whose_link_dropped(
    server: SSHServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "local").write_bytes(bytes(1_000_000))
    there = tmp_path / "there"
    there.mkdir()
    tried: list[str] = []

    def replaced(sftp: paramiko.SFTPClient, part: bytes, place: bytes) -> None:
        tried.extend(path.name for path in there.iterdir())
        server.kill_connections()
        raise EOFError

    monkeypatch.setattr(paramiko.SFTPClient, "posix_rename", replaced)
    with connect(server) as env:
        env.execute("true")
        with contextlib.suppress(EnvironmentLostError):  # if that is noticed before the shell has taken over
            env.put_file(tmp_path / "local", there / "new")
    assert [name.startswith(".hermes-") for name in tried] == [True]
    assert {path.name for path in there.iterdir()} <= {"new"}


def test_large_input_is_given_to_the_client_piece_by_piece(server: SSHServer, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    send = paramiko.Channel.sendall
    monkeypatch.setattr(paramiko.Channel, "sendall", lambda self, data: (sizes.append(len(data)), send(self, data)))
    with connect(server) as env:
        assert env.execute("wc -c", stdin=bytes(3_000_000)).output.split() == ["3000000"]
    assert sum(sizes) > 3_000_000
    assert max(sizes) < 1_000_000  # it copies the rest of what it is given with each packet


def test_no_more_than_one_connection_is_used_for_many_commands_at_once(server: SSHServer) -> None:
    with connect(server) as env:
        assert oneshots(env, 20) == [f"{number}\n" for number in range(20)]
        assert env.execute("echo session").output == "session\n"
        assert server.connections == 1


def test_more_is_run_than_the_server_allows_sessions_on_a_connection(start_server: StartServer) -> None:
    server = start_server(options="MaxSessions 3")
    with connect(server) as env:
        processes = [env.start("sleep 1000") for _ in range(5)]
        assert oneshots(env, 20) == [f"{number}\n" for number in range(20)]
        assert env.execute("sleep 1000", timeout=0.2).timed_out
        for process in processes:
            process.kill()
        assert env.execute("echo still here").output == "still here\n"


def oneshots(env: BaseEnvironment, count: int) -> list[str]:
    outputs = [""] * count

    def run(number: int) -> None:
        outputs[number] = env.execute_oneshot(f"sleep 0.1; echo {number}", timeout=60).output

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outputs


@pytest.mark.parametrize("name", ["KILL", "SEGV", "TERM"])
def test_the_signal_that_ended_a_process_is_known(name: str, server: SSHServer) -> None:
    with connect(server) as env:
        env.execute("true")
        stream = env.open_stream(["/bin/sh", "-c", f"kill -{name} $$"])
        assert stream.exit_code(10) == 128 + signal.Signals[f"SIG{name}"]
        stream.close()


def test_output_after_the_end_of_a_process_is_not_lost_and_is_not_waited_for_long(server: SSHServer) -> None:
    with connect(server) as env:
        env.execute("true")
        stream = env.open_stream(["/bin/sh", "-c", "sleep 1000 & printf '%100000s' $!; exit 5"])
        output = b""
        while (chunk := stream.read(30)) and chunk.data:
            output += chunk.data
        assert env.execute(f"kill {output.decode().strip()}").exit_code == 0
        assert len(output) == 100_000
        assert stream.exit_code(10) == 5
        stream.close()


# Losing the link.


class Command:
    """A command that runs in a thread."""

    def __init__(self, env: BaseEnvironment, command: str) -> None:
        self._begun = threading.Event()
        self.error: Exception | None = None
        self._thread = threading.Thread(target=self._run, args=(env, command))
        self._thread.start()
        assert self._begun.wait(30)

    def _run(self, env: BaseEnvironment, command: str) -> None:
        try:
            env.execute(command, on_output=lambda _: self._begun.set(), timeout=110)
        except Exception as error:
            self.error = error
        finally:
            self._begun.set()

    def lost(self) -> EnvironmentLostError:
        self._thread.join(60)
        assert isinstance(self.error, EnvironmentLostError), self.error
        return self.error


def test_a_server_killed_under_a_command_and_back_runs_it_once(server: SSHServer, tmp_path: Path) -> None:
    with connect(server) as env:
        command = Command(env, f"echo run >>{tmp_path}/runs; echo begun; sleep 1000")
        server.stop()
        error = command.lost()
        assert error.output == "begun\n" and "'ssh' was lost" in str(error)
        with pytest.raises(EnvironmentStartError, match="nothing listens there"):
            env.execute("true")
        server.start()
        assert env.execute(f"cat {tmp_path}/runs").output == "run\n"


def test_a_link_dropped_between_commands_is_not_noticed(server: SSHServer) -> None:
    with connect(server) as env:
        env.execute("cd /tmp")
        assert env.execute_oneshot("echo beside").output == "beside\n"
        server.kill_connections()
        # Something in the background, such as the shell in reserve, may be the first to see it, and to connect anew.
        as_before = (Stage.STARTED, 1)
        assert wait_until(lambda: env.target_loss() is not None or (env.life.stage, env.life.generation) != as_before)
        assert env.execute("pwd").output == "/tmp\n"
        assert env.execute_oneshot("echo beside").output == "beside\n"


def test_a_link_that_falls_silent_is_lost_and_the_next_command_connects_anew(
    server: SSHServer, link: Link, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(ssh_link, "KEEPALIVE", 0.2)
    with connect(server, port=link.port) as env:
        command = Command(env, f"echo run >>{tmp_path}/runs; echo begun; sleep 1000")
        link.go_silent()
        assert "has not answered for" in str(command.lost())
        link.speak()
        assert env.execute(f"cat {tmp_path}/runs").output == "run\n"


def test_a_link_that_falls_silent_between_commands_is_lost(
    server: SSHServer, link: Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssh_link, "KEEPALIVE", 0.2)
    with connect(server, port=link.port) as env:
        env.execute("true")
        link.go_silent()
        with pytest.raises(EnvironmentLostError):
            env.execute("echo unheard")
        link.speak()
        assert env.execute("echo again").output == "again\n"


def test_a_quiet_command_does_not_look_like_a_silent_link(server: SSHServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssh_link, "KEEPALIVE", 0.05)
    with connect(server) as env:
        assert env.execute("sleep 2; echo done").output == "done\n"
        assert server.connections == 1


# In a container.


def test_root_works_in_a_container(sshd_container: SSHContainer, tmp_path: Path) -> None:
    with create_environment("ssh", user="root", **sshd_container.settings) as env:
        assert env.execute("whoami; pwd").output == "root\n/root\n"
        (tmp_path / "local").write_bytes(os.urandom(500_000))
        env.put_file(tmp_path / "local", "sub/remote")
        assert env.execute("stat -c %s sub/remote").output == "500000\n"
        assert env.read_bytes("~/sub/remote") == (tmp_path / "local").read_bytes()
        assert oneshots(env, 20) == [f"{number}\n" for number in range(20)]


@pytest.mark.parametrize("run", ["execute", "execute_oneshot"])
def test_a_fork_bomb_ends_with_its_time_where_the_target_limits_processes(
    sshd_container: SSHContainer, run: str
) -> None:
    sshd_container.limit_processes(150)
    with create_environment("ssh", user="agent", **sshd_container.settings) as env:
        env.execute("cd /tmp; kept=yes")
        env.write_bytes("/tmp/file", b"by the shell that is opened beside the first command, and that ends others")
        for bomb in ("bomb() { bomb | bomb & }; bomb; sleep 1000", f"python3 -c '{SLEEPING}'"):
            assert getattr(env, run)(bomb, timeout=3).timed_out
            assert env.execute("pwd; echo $kept; (echo forked)").output == "/tmp\nyes\nforked\n"


SLEEPING = """
import os, time
while True:
    try:
        os.fork() or time.sleep(1000)
    except OSError:
        pass
"""


def test_a_user_logs_in_with_a_password(sshd_container: SSHContainer) -> None:
    sshd_container.set_password("agent", "swordfish")
    settings = {**sshd_container.settings, "key": None, "user": "agent"}
    with create_environment("ssh", password="swordfish", **settings) as env:
        assert env.execute("whoami").output == "agent\n"
    with create_environment("ssh", password="sardine", **settings) as env:
        with pytest.raises(EnvironmentStartError, match="the password") as caught:
            env.execute("true")
        assert "sardine" not in str(caught.value)


def test_a_user_whose_home_does_not_exist_can_work(sshd_container: SSHContainer) -> None:
    sshd_container.run(
        "mkdir -p /etc/keys && cp ~agent/.ssh/authorized_keys /etc/keys && chmod 644 /etc/keys/* && rm -r ~agent"
    )
    with create_environment("ssh", user="agent", **sshd_container.settings) as env:
        assert env.execute("pwd; whoami").output == "/\nagent\n"
        env.write_bytes("/tmp/large", b"x" * 200_000)
        assert env.read_bytes("/tmp/large") == b"x" * 200_000


def test_a_container_that_is_removed_is_a_lost_target(sshd_container: SSHContainer) -> None:
    with create_environment("ssh", user="root", **sshd_container.settings) as env:
        command = Command(env, "echo begun; sleep 1000")
        sshd_container.remove()
        assert command.lost().output == "begun\n"
