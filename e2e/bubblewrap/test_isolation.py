"""Isolation of a sandbox: commands can neither read, write, reach nor signal the rest of the machine."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from targets.bubblewrap import end_sandbox, first_process
from targets.engines import require_bubblewrap

from code_execution import execute_code
from environments import BaseEnvironment, EnvironmentLostError, EnvironmentStartError, SettingsError

CONNECT = "import socket, sys; socket.create_connection(('127.0.0.1', int(sys.argv[1])), 5).close(); print('connected')"


def test_the_system_cannot_be_written(env: BaseEnvironment) -> None:
    places = ["/", "/usr", "/etc", "/opt", "/var", "/dev/..", "/usr/local/bin"]
    results = {place: env.execute(f"touch {place}/hermes-was-here") for place in places}
    assert [place for place, result in results.items() if "Read-only file system" not in result.output] == []
    assert [place for place in places if results[place].ok or Path(place, "hermes-was-here").exists()] == []


def test_writes_to_home_and_tmp_stay_in_the_sandbox_and_the_project_is_shared(env: BaseEnvironment, home: Path) -> None:
    assert env.execute("echo kept >file; pwd").output == f"{home}/project\n"
    assert (home / "project/file").read_text() == "kept\n"
    assert env.execute("echo x >~/lost; echo x >/tmp/hermes-lost; echo x >/run/hermes-lost; cat ~/lost").output == "x\n"
    assert not any(place.exists() for place in (home / "lost", Path("/tmp/hermes-lost"), Path("/run/hermes-lost")))


def test_of_home_only_the_project_is_seen(env: BaseEnvironment, home: Path) -> None:
    assert env.execute(f"ls -A ~; ls -A {home}/.hermes").output.split() == [".hermes", "project"]
    for secret in (".ssh/id_ed25519", ".aws/credentials", ".config/gcloud/key", ".netrc", "other/notes"):
        assert "No such file" in env.execute(f"cat ~/{secret}").output


def test_files_of_root_are_not_read_by_root_either(env: BaseEnvironment) -> None:
    for secret in ("/etc/shadow", "/etc/gshadow"):
        assert "Permission denied" in env.execute(f"cat {secret}").output


def test_files_are_not_fetched_through_a_link_to_a_hidden_file(env: BaseEnvironment, home: Path) -> None:
    env.execute(f"ln -s {home}/.ssh/id_ed25519 key")
    with pytest.raises(FileNotFoundError):
        env.read_bytes("key")
    result = execute_code("from hermes_tools import read_file; print(read_file('key'))", env=env)
    assert "error" in result.output, result.output


def test_the_kernels_settings_are_not_written_by_root_either(make_sandbox, home: Path) -> None:
    find = "find /proc -path '/proc/[0-9]*' -prune -o -type f -writable -print 2>/dev/null"
    for settings in ({}, {"network": True}):
        env = make_sandbox(**settings)
        assert env.execute(find).output == ""
        for name in ("vm/swappiness", "kernel/core_pattern", "kernel/hostname"):
            before = Path("/proc/sys", name).read_bytes()
            result = env.execute(f"cat /proc/sys/{name} >/tmp/value; cat /tmp/value >/proc/sys/{name}")
            assert not result.ok
            assert "Read-only file system" in result.output or "Permission denied" in result.output
            assert Path("/proc/sys", name).read_bytes() == before
    with pytest.raises(SettingsError, match="paths: a sandbox has a /proc of its own"):
        make_sandbox(paths=["/proc/sys"])


def test_processes_of_the_machine_are_neither_seen_nor_signalled(env: BaseEnvironment, nap: str) -> None:
    with subprocess.Popen(["sleep", nap]) as sleeper:
        seen = env.execute(
            f"grep -lsF {nap[:7]} /proc/[0-9]*/cmdline | grep -v self; kill -9 {sleeper.pid}; kill -9 -1"
        )
        assert "No such process" in seen.output
        assert nap not in env.execute("cat /proc/[0-9]*/cmdline | tr '\\0' ' '").output
        assert sleeper.poll() is None
        sleeper.kill()


def test_there_is_no_network(env: BaseEnvironment) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        result = env.execute(f'python3 -c "{CONNECT}" {listener.getsockname()[1]}')
    assert "ConnectionRefusedError" in result.output
    assert (
        "Network is unreachable"
        in env.execute("python3 -c \"import socket; socket.create_connection(('192.0.2.1', 80))\"").output
    )


def test_the_network_setting_gives_a_network(make_sandbox) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        result = make_sandbox(network=True).execute(f'python3 -c "{CONNECT}" {listener.getsockname()[1]}')
    assert result.output == "connected\n"


def test_sockets_of_services_are_not_reached(env: BaseEnvironment, tmp_path: Path, nap: str) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "service"))
        listener.listen()
        for path in (tmp_path / "service", "/var/run/docker.sock", "/run/docker.sock", "/run/dbus/system_bus_socket"):
            code = f"import socket; socket.socket(socket.AF_UNIX).connect('{path}')"
            assert "FileNotFoundError" in env.execute(f'python3 -c "{code}"').output
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"\0hermes-{nap}")
        listener.listen()
        result = env.execute(f"python3 -c \"import socket; socket.socket(socket.AF_UNIX).connect('\\0hermes-{nap}')\"")
    assert "ConnectionRefusedError" in result.output


def test_secrets_of_this_process_are_not_handed_in(make_sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "LC_DSN", "SSH_AUTH_SOCK", "DBUS_SESSION_BUS_ADDRESS", "MINE", "ALLOWED_TOKEN"):
        monkeypatch.setenv(name, "sk-secret")
    monkeypatch.setenv("LANG", "C.UTF-8")
    variables = make_sandbox(env_passthrough=["ALLOWED_TOKEN"]).execute("env").output.splitlines()
    assert [line for line in variables if "sk-secret" in line] == ["ALLOWED_TOKEN=sk-secret"]
    assert "LANG=C.UTF-8" in variables


def test_commands_have_no_privileges_and_get_none(env: BaseEnvironment) -> None:
    status = dict(line.split(":\t") for line in env.execute("cat /proc/self/status").output.splitlines())
    assert {status[f"Cap{kind}"] for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb")} == {"0" * 16}
    assert status["NoNewPrivs"] == "1"
    for held in (env.execute("ls -l /proc/self/fd").output, env.execute_oneshot("ls -l /proc/self/fd").output):
        assert "socket:" not in held


def test_commands_can_neither_kill_nor_read_the_first_process(env: BaseEnvironment) -> None:
    env.execute("true")
    before = first_process(env)
    for signal in ("KILL", "TERM", "INT", "STOP", "CHLD"):
        env.execute(f"kill -{signal} 1; kill -{signal} 1")
    assert "Permission denied" in env.execute("cat /proc/1/environ; ls /proc/1/cwd/").output
    assert "PermissionError" in env.execute("python3 -c \"open('/proc/1/mem', 'rb')\"").output
    assert env.execute("echo here").output == "here\n"
    assert first_process(env) == before


KEYS = """
import ctypes, os, sys
from environments import create_environment
libc = ctypes.CDLL(None, use_errno=True)
join, read, session_keyring = 1, 11, -3
add_key, keyctl = {"x86_64": (248, 250), "aarch64": (217, 219)}[os.uname().machine]
libc.syscall(keyctl, join, None)
key = libc.syscall(add_key, b"user", b"hermes-test", b"secret", 6, session_keyring)
look = f"import ctypes; print(ctypes.CDLL(None).syscall({keyctl}, {read}, {key}, None, 0))"
for backend in ("local", "bubblewrap"):
    with create_environment(backend) as env:
        print(env.execute(f"python3 -c '{look}'").output.strip())
"""


def test_keys_that_the_kernel_keeps_for_the_user_are_not_read(home: Path) -> None:
    require_bubblewrap()
    argv = [sys.executable, "-c", KEYS]
    done = subprocess.run(argv, cwd=home / "project", capture_output=True, text=True, check=True)
    assert done.stdout.split()[1] == "-1", "the first is -1, too, where a kernel keeps no keys"


def test_a_terminal_is_the_sandboxs_own(env: BaseEnvironment) -> None:
    process = env.start("tty; stty size; ls /dev/pts", pty=True, rows=30, columns=90)
    assert process.wait(30) == 0
    assert process.read().split() == ["/dev/pts/0", "30", "90", "0", "ptmx"]


def test_programs_that_this_process_runs_are_read_only_within_the_project(
    make_sandbox, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs, packages = home / "project/venv/bin", home / "project/venv/lib"
    for folder in (programs, packages):
        folder.mkdir(parents=True)
    monkeypatch.setenv("VIRTUAL_ENV", str(home / "project/venv"))
    monkeypatch.setenv("PATH", f"{home}/project/tools:{os.environ['PATH']}")
    (home / "project/tools").mkdir()
    for folder in (programs, packages, home / "project/tools"):
        assert "Read-only file system" in make_sandbox().execute(f"touch {folder}/new").output
    assert make_sandbox(paths=[str(home / "project/venv")]).execute(f"touch {packages}/new").ok


def test_programs_and_libraries_that_a_script_left_on_search_paths_are_not_run_outside(
    make_sandbox, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trap = home / "project/not-there-yet"
    monkeypatch.setenv("PATH", f"{trap}:not-there-yet:{os.environ['PATH']}")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(trap))
    monkeypatch.setenv("LD_PRELOAD", str(trap / "lib.so"))
    monkeypatch.chdir(home / "project")
    outside = home / "trapped"
    env = make_sandbox()
    env.execute(f"mkdir {trap}; printf '#!/bin/sh\ntouch {outside}\n' >{trap}/bwrap; chmod +x {trap}/bwrap")
    assert env.execute("bwrap; echo $?").output.endswith("0\n"), "it is a program"
    env.cleanup()
    again = make_sandbox()
    assert again.execute("echo $LD_LIBRARY_PATH").output == f"{trap}\n"
    assert not outside.exists()
    around = psutil.Process(first_process(again)).parent()
    assert around
    assert set(around.environ()) == {"HERMES_COMMAND"}


def test_settings_within_the_project_are_neither_read_nor_written(
    make_sandbox, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = home / "project/.hermes"
    monkeypatch.setenv("HERMES_HOME", str(place))
    env = make_sandbox()
    assert env.execute("echo 'terminal: {env: local}' >.hermes/config.yaml").ok
    assert list(place.iterdir()) == []
    env.cleanup()
    (place / "config.yaml").write_text("{}")
    assert "No such file" in make_sandbox().execute("cat .hermes/config.yaml").output


def test_paths_that_are_named_are_seen_as_the_settings_say(make_sandbox, home: Path) -> None:
    (home / "link").symlink_to(home / "other")
    env = make_sandbox(read_only_paths=["~/.netrc"], paths=[str(home / "link")])
    assert env.execute("cat ~/.netrc; echo more >>~/link/notes; cat ~/link/notes ~/other/notes").output == (
        "{}{}more\n{}more\n"
    )
    assert "Read-only file system" in env.execute("echo x >~/.netrc").output


def test_a_link_that_a_script_has_put_into_the_place_of_a_path_is_not_followed(make_sandbox, home: Path) -> None:
    (home / "project/out").mkdir()
    env = make_sandbox(paths=[str(home / "project/out")])
    env.execute("true")
    (home / "project/out").rmdir()  # a script of another sandbox can do so where `out` is no mount
    (home / "project/out").symlink_to(home / "other")
    end_sandbox(env)

    def use_again() -> None:
        with contextlib.suppress(EnvironmentLostError):
            env.execute("sleep 1000", timeout=60)
        env.execute("true")

    with pytest.raises(EnvironmentStartError, match=r"paths: .*/out led to .*/out, and now .* to .*/other"):
        use_again()


def test_a_script_calls_tools_from_within(env: BaseEnvironment) -> None:
    code = """
import os
from hermes_tools import terminal
print(terminal('export A=1; echo $$')['output'].strip(), os.path.exists(os.path.expanduser('~/.ssh')), os.getcwd())
"""
    result = execute_code(code, env=env)
    assert result.status == "success", result.output
    shell, secrets, cwd = result.output.split()
    assert int(shell) < 1000, "the session's shell is not in a process table of its own"
    assert (secrets, cwd) == ("False", env.cwd)
    assert env.execute("echo $A").output == "1\n"


def test_this_processs_python_is_used_where_there_is_no_other(
    make_sandbox, monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    (home / "programs").mkdir()
    for name in ("sh", "bash", "cat", "mkdir", "mv", "rm", "grep", "base64", "stat", "chmod", "ls", "env", "bwrap"):
        (home / "programs" / name).symlink_to(f"/usr/bin/{name}")
    monkeypatch.setenv("PATH", str(home / "programs"))
    result = execute_code("import sys; print(sys.prefix)", env=make_sandbox())
    assert result.output.strip() == sys.prefix
