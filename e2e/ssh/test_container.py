"""A host with its own users: passwords, sudo, a missing home and a process limit."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest
from targets.ssh_server import SSHContainer

from code_execution import execute_code
from environments import BaseEnvironment, EnvironmentStartError, UnsupportedError, create_environment
from environments.conformance.check import wait_until

SUDO = """#!/bin/sh
[ "$1 $2 $4" = "-n -u --" ] || exit 1
number=$(id -u "$3") || exit 1
shift 4
exec env -i PATH=/usr/bin:/bin /usr/local/bin/become --reuid=$number --regid=$number --clear-groups -- "$@"
"""
"""A minimal `sudo` on top of the setuid program `become`. Variables are not passed on."""

BOMB = "bomb() { bomb | bomb & }; bomb; sleep 1000"


def test_root_works_in_its_home(container: SSHContainer) -> None:
    with create_environment("ssh", user="root", **container.settings) as env:
        assert env.execute("whoami; pwd").output == "root\n/root\n"
        env.write_bytes("sub/remote", b"x" * 500_000)
        assert env.read_bytes("~/sub/remote") == b"x" * 500_000


def test_a_command_has_the_rights_of_the_login_user(container: SSHContainer) -> None:
    with create_environment("ssh", user="agent", **container.settings) as env:
        for run in (env.execute, env.execute_oneshot):
            assert run("id -un").output == "agent\n"
            assert "Permission denied" in run("cat /etc/shadow").output
            assert "Permission denied" in run("touch /etc/made").output
        code = "import os; print(os.getuid() == os.geteuid() != 0, os.access('/etc/shadow', os.R_OK))"
        assert execute_code(code, env=env, tools={}).output == "True False\n"


def test_a_user_logs_in_with_a_password(container: SSHContainer) -> None:
    container.set_password("agent", "swordfish")
    settings = {**container.settings, "key": None, "user": "agent"}
    with create_environment("ssh", password="swordfish", **settings) as env:
        assert env.execute("whoami").output == "agent\n"
    with create_environment("ssh", password="sardine", **settings) as env:
        with pytest.raises(EnvironmentStartError, match="the password") as caught:
            env.execute("true")
        assert "sardine" not in str(caught.value)


def test_a_user_whose_home_does_not_exist_can_work(container: SSHContainer) -> None:
    container.run("echo 'homeless:*:1500:1500::/home/none:/bin/bash' >>/etc/passwd")
    container.run("mkdir -p /etc/keys && cp ~agent/.ssh/authorized_keys /etc/keys && chmod 644 /etc/keys/*")
    with create_environment("ssh", user="homeless", **container.settings) as env:
        assert env.execute("pwd; whoami").output == "/\nhomeless\n"
        env.write_bytes("/tmp/large", b"x" * 200_000)
        assert env.read_bytes("/tmp/large") == b"x" * 200_000


def test_a_fork_bomb_ends_at_its_time_out_where_processes_are_limited(container: SSHContainer) -> None:
    container.limit_processes(150)
    with create_environment("ssh", user="agent", **container.settings) as env:
        env.execute("cd /tmp; kept=yes")
        env.write_bytes("/tmp/file", b"by the shell that is opened beside the first command, and that ends others")
        for run in (env.execute, env.execute_oneshot):
            assert run(BOMB, timeout=3).timed_out
            assert env.execute("pwd; echo $kept; (echo forked)").output == "/tmp\nyes\nforked\n"
    container.limit_processes(-1)


@pytest.fixture
def host(container: SSHContainer) -> Iterator[SSHContainer]:
    """Give agent a minimal `sudo`, for the time of the test."""
    container.run("cp /usr/bin/setpriv /usr/local/bin/become && chmod 4755 /usr/local/bin/become")
    container.run(f"cat >/usr/local/bin/sudo <<'END'\n{SUDO}END\nchmod 755 /usr/local/bin/sudo")
    yield container
    container.run("rm /usr/local/bin/become /usr/local/bin/sudo")


@pytest.fixture
def env(host: SSHContainer) -> Iterator[BaseEnvironment]:
    with create_environment("ssh", user="agent", **host.settings) as made:
        yield made


def test_without_sudo_commands_of_another_user_are_refused(container: SSHContainer) -> None:
    with create_environment("ssh", user="agent", **container.settings) as env:
        ways = [partial(each, user="nobody") for each in (env.execute_oneshot, env.start)]
        for run in (*ways, env.session("other", user="nobody").execute):
            with pytest.raises(UnsupportedError, match="sudo -n -u"):
                run("touch /tmp/ran")
        assert env.execute("ls /tmp/ran").exit_code != 0
        assert env.execute_oneshot("whoami", user="agent").output == "agent\n"


def test_with_sudo_commands_run_as_another_user(env: BaseEnvironment) -> None:
    env.execute("cd /tmp; export KEPT='as it is' LANG=C.UTF-8")
    ask = "id -un; echo $HOME $USER $LOGNAME; pwd; echo $KEPT $LANG; cat"
    result = env.execute_oneshot(ask, user="nobody", session_env=True, stdin="in")
    assert result.output == "nobody\n/nonexistent nobody nobody\n/tmp\nas it is C.UTF-8\nin"
    assert env.execute_oneshot("id -un; id -u >/root/out && cat /root/out", user="root").output == "root\n0\n"
    with env.session("root's", user="root") as session:
        session.execute("cd /root; kept=1")
        assert session.execute("id -un; pwd; echo $kept").output == "root\n/root\n1\n"
    process = env.start("tty >/dev/null && id -un", user="nobody", pty=True)
    assert process.wait(60) == 0 and process.read().strip() == "nobody"


def test_processes_of_another_user_are_ended_by_sudo(env: BaseEnvironment, host: SSHContainer, nap: str) -> None:
    result = env.execute_oneshot(f"setsid sleep {nap} & sleep {nap}", user="root", timeout=1)
    assert result.timed_out and not result.survivors
    assert env.execute_oneshot(f"pgrep -f 'sleep {nap}'", user="root").output == ""
    env.execute_oneshot("cat", stdin="for a private directory of nobody", user="nobody")
    env.start(f"setsid sleep {nap}", user="nobody", stdin="none")
    assert wait_until(lambda: env.execute_oneshot(f"pgrep -f '^sleep {nap}'").ok)
    env.cleanup()
    with create_environment("ssh", user="root", **host.settings) as other:
        assert not other.execute(f"pgrep -f '^sleep {nap}'").ok
        left = other.execute(f"grep -lsF {env.id}/ /proc/[0-9]*/environ; ls -d /tmp/hermes-{env.id}*")
        assert left.output.count("\n") == 1 and "No such file" in left.output
