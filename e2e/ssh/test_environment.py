"""Commands, files and lost links on real servers. The contract itself is in environments/conformance."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from targets.command_thread import CommandThread
from targets.ssh_server import Link, SSHServer

from environments import BaseEnvironment, EnvironmentLostError, EnvironmentStartError, load_settings
from environments.conformance.check import wait_until
from environments.progress import Progress
from environments.ssh import SSHEnvironment
from environments.ssh import link as ssh_link

StartServer = Callable[..., SSHServer]


@pytest.fixture
def link(server: SSHServer) -> Iterator[Link]:
    link = Link(server.port)
    yield link
    link.close()


def connect(server: SSHServer, **settings: object) -> SSHEnvironment:
    return SSHEnvironment(load_settings("ssh", **{**server.settings, **settings}))


# Kinds of servers.


def test_the_login_shell_may_be_any(start_server: StartServer, tmp_path: Path) -> None:
    for shell in ("bash", "dash", "csh", "tcsh", "fish", "zsh"):
        if not shutil.which(shell):
            continue
        with connect(start_server(login_shell=shell)) as env:
            assert env.execute("cd /tmp; export A='it is !$ \\'; echo \"$A\"").output == "it is !$ \\\n", shell
            assert env.execute('echo "$PWD $A"').output == "/tmp it is !$ \\\n", shell
            process = env.start("tty >/dev/null && echo on a terminal", pty=True)
            assert process.wait(60) == 0, shell
            assert "on a terminal" in process.read()
            env.write_bytes(str(tmp_path / shell), b"x" * 1_000_000)
            assert (tmp_path / shell).stat().st_size == 1_000_000


def test_a_user_without_a_writable_home_can_work(start_server: StartServer, tmp_path: Path) -> None:
    server = start_server(options="SetEnv HOME=/proc/no-home", login_shell="cd /proc && sh")
    with connect(server) as env:
        assert env.execute("pwd; echo $HOME").output == "/proc\n/proc/no-home\n"
        assert env.execute("cat", stdin="some input").output == "some input"
        local = tmp_path / "file"
        local.write_bytes(os.urandom(200_000))
        env.put_file(local, tmp_path / "copy")
        assert env.read_bytes(str(tmp_path / "copy")) == local.read_bytes()


def test_a_greeting_of_the_login_shell_is_ignored(start_server: StartServer, tmp_path: Path) -> None:
    with connect(start_server(login_shell="echo Welcome to this host; bash")) as env:
        assert env.execute("echo in").output == "in\n"
        process = env.start("tty -s && echo on a terminal", pty=True)
        assert process.wait(60) == 0
        assert process.read().strip() == "on a terminal"
        env.write_bytes(str(tmp_path / "file"), b"x" * 200_000)
        assert env.read_bytes(str(tmp_path / "file")) == b"x" * 200_000


def test_files_are_transferred_through_the_shell_without_sftp(start_server: StartServer, tmp_path: Path) -> None:
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


def test_nothing_is_left_of_a_file_whose_link_dropped(server: SSHServer, tmp_path: Path) -> None:
    (tmp_path / "local").write_bytes(bytes(50_000_000))
    there = tmp_path / "there"
    there.mkdir()
    parts: list[str] = []

    def on_progress(progress: Progress) -> None:
        if progress.done and not parts:
            assert wait_until(lambda: list(there.iterdir()), 60)
            parts.extend(path.name for path in there.iterdir())
            server.kill_connections()

    with connect(server) as env:
        env.execute("true")
        env.progress.callback = on_progress
        with pytest.raises(EnvironmentLostError):
            env.put_file(tmp_path / "local", there / "new")
        assert [name.startswith(".hermes-") for name in parts] == [True]
        assert wait_until(lambda: not list(there.iterdir()), 60)


def test_a_connection_runs_more_commands_at_once_than_the_server_allows_sessions(
    start_server: StartServer,
) -> None:
    server = start_server(options="MaxSessions 3")
    with connect(server) as env:
        processes = [env.start("sleep 1000") for _ in range(5)]
        assert oneshots(env, 20) == [f"{number}\n" for number in range(20)]
        assert env.execute("sleep 1000", timeout=0.2).timed_out
        for process in processes:
            process.kill()
        assert env.execute("echo still here").output == "still here\n"
    server = start_server()
    with connect(server) as env:
        assert oneshots(env, 8) == [f"{number}\n" for number in range(8)]
        assert server.connections == 1


def oneshots(env: BaseEnvironment, count: int) -> list[str]:
    outputs = [""] * count

    def run(number: int) -> None:
        outputs[number] = env.execute_oneshot(f"sleep 0.1; echo {number}", timeout=100).output

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outputs


# Losing the link.


def test_a_server_killed_under_a_command_and_back_runs_it_once(start_server: StartServer, tmp_path: Path) -> None:
    server = start_server()
    with connect(server) as env:
        command = CommandThread(env, f"echo run >>{tmp_path}/runs; echo begun; sleep 1000")
        server.stop()
        error = command.lost()
        assert error.output == "begun\n" and "'ssh' was lost" in str(error)
        with pytest.raises(EnvironmentStartError, match="nothing listens there; check TERMINAL_SSH_PORT"):
            env.execute("true")
        server.start()
        assert env.execute(f"cat {tmp_path}/runs").output == "run\n"


def test_a_link_dropped_between_commands_is_replaced_silently(server: SSHServer) -> None:
    with connect(server) as env:
        env.execute("cd /tmp")
        assert env.execute_oneshot("echo beside").output == "beside\n"
        [link] = env._links
        server.kill_connections()
        # The environment may have a new link by then, opened for background work such as the spare shell.
        assert wait_until(lambda: link.loss() is not None, 60)
        assert env.execute("pwd").output == "/tmp\n"
        assert env.execute_oneshot("echo beside").output == "beside\n"


def test_a_link_that_falls_silent_is_lost_and_the_next_command_connects_anew(
    server: SSHServer, link: Link, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(ssh_link, "KEEPALIVE", 0.2)
    with connect(server, port=link.port) as env:
        command = CommandThread(env, f"echo run >>{tmp_path}/runs; echo begun; sleep 1000")
        link.go_silent()
        assert "has not answered for" in str(command.lost())
        link.speak()
        assert env.execute(f"cat {tmp_path}/runs").output == "run\n"
        link.go_silent()
        with pytest.raises(EnvironmentLostError):
            env.execute("echo unheard")
        link.speak()
        assert env.execute("echo again").output == "again\n"


def test_a_loss_is_explained_also_while_another_thread_connects_anew(
    server: SSHServer, link: Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssh_link, "KEEPALIVE", 0.2)
    monkeypatch.setattr(ssh_link, "CONNECT_TIMEOUT", 5.0)
    with connect(server, port=link.port) as env:
        lost = CommandThread(env, "echo begun; sleep 1000")
        link.go_silent()
        assert "has not answered for" in str(lost.lost())
        before = link.connections
        anew = threading.Thread(target=CommandThread, args=(env, "true"))
        anew.start()
        wait_until(lambda: link.connections > before)
        assert "has not answered for" in str(env.target_loss())
        anew.join()
        link.speak()


def test_a_quiet_command_is_no_silent_link(server: SSHServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssh_link, "KEEPALIVE", 0.05)
    with connect(server) as env:
        assert env.execute("kept=yes; sleep 1; echo done").output == "done\n"
        assert env.execute("echo $kept").output == "yes\n"
