"""Errors of an engine that cannot be reached, on real sockets."""

from __future__ import annotations

import grp
import json
import os
import pwd
import socket
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from environments import EnvironmentStartError, SettingsError, UnsupportedError, create_environment
from environments.docker.engine import engine_address

NOBODY = pwd.getpwnam("nobody")


@pytest.fixture
def folder() -> Iterator[Path]:
    """Make a directory that every user may read."""
    with tempfile.TemporaryDirectory() as made:
        Path(made).chmod(0o755)
        yield Path(made)


def listening(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()
    return listener


def error_of_start() -> str:
    with pytest.raises((EnvironmentStartError, SettingsError)) as caught, create_environment("docker") as env:
        env.execute("true")
    return str(caught.value)


def run_as_nobody(ask: Callable[[], str]) -> str:
    """Call a function as an unprivileged user in a child process; return the answer."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        if not os.geteuid():
            os.setgroups([])
            os.setresgid(NOBODY.pw_gid, NOBODY.pw_gid, NOBODY.pw_gid)
            os.setresuid(NOBODY.pw_uid, NOBODY.pw_uid, NOBODY.pw_uid)
        try:
            os.write(writer, ask().encode())
        except BaseException as error:  # the child must not return into pytest
            os.write(writer, repr(error).encode())
        finally:
            os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with os.fdopen(reader) as answer:
        return answer.read()


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_socket_without_permission_is_an_error_that_names_the_group(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{folder}/docker.sock")
    monkeypatch.setenv("HERMES_HOME", str(folder))
    error_of_start()  # imports all modules: the user nobody may not be able to read them
    group = next(entry for entry in grp.getgrall() if entry.gr_gid and NOBODY.pw_name not in entry.gr_mem)
    with listening(folder / "docker.sock"):
        (folder / "docker.sock").chmod(0)
        if not os.geteuid():
            os.chown(folder / "docker.sock", 0, group.gr_gid)
        error = run_as_nobody(error_of_start)
    assert f"may not use the engine at unix://{folder}/docker.sock" in error
    assert "usermod -aG " in error and "rootless" in error and "DOCKER_HOST" in error
    assert "start it" not in error


def test_a_missing_socket_is_an_error_with_the_remedy(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{folder}/docker.sock")
    assert "does not answer (No such file or directory); start it" in error_of_start()


def test_an_engine_of_the_users_own_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    with listening(folder / "docker.sock"):
        error = error_of_start()
    assert f"There is one at unix://{folder}/docker.sock" in error and "the engine at tcp://127.0.0.1:1 " in error


def test_the_context_of_the_docker_program_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # As on a machine without an engine at the default path.
    monkeypatch.setattr("docker.utils.utils.DEFAULT_UNIX_SOCKET", f"http+unix://{folder}/docker.sock")
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    monkeypatch.setenv("DOCKER_CONFIG", str(folder))
    (folder / "config.json").write_text(json.dumps({"currentContext": "colima"}))
    error = error_of_start()
    assert "uses the context 'colima'" in error and "docker context inspect colima" in error


def test_an_address_of_another_form_is_refused_and_no_password_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    for host in ("/var/run/docker.sock", "unixx://foo"):
        monkeypatch.setenv("DOCKER_HOST", host)
        error = error_of_start()
        assert f"DOCKER_HOST is {host!r}" in error and "unix:///var/run/docker.sock" in error
    for host in ("ssh://", "ssh://user:pa55@host", "ssh://user:pa55@host:x"):
        monkeypatch.setenv("DOCKER_HOST", host)
        error = error_of_start()
        assert error.startswith("backend 'docker': DOCKER_HOST: ")
        assert "ssh://user@host:port" in error and "pa55" not in error


def test_an_engine_behind_a_login_that_fails_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "ssh://agent@127.0.0.1:1")
    error = error_of_start()
    assert error.startswith("backend 'docker': no connection to the engine at ssh://agent@127.0.0.1:1: ")
    assert "nothing listens there; check TERMINAL_SSH_PORT" in error


def test_a_password_in_the_engines_url_is_in_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://user:open-sesame-4711@127.0.0.1:1")
    with pytest.raises(SettingsError, match=r"DOCKER_HOST is 'tcp://user:\[REDACTED:") as caught:
        engine_address()
    assert "open-sesame" not in "".join(traceback.format_exception(caught.value))


def test_certificates_that_are_missing_are_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
    monkeypatch.setenv("DOCKER_TLS_VERIFY", "1")
    monkeypatch.setenv("DOCKER_CERT_PATH", "")
    assert "DOCKER_CERT_PATH" in error_of_start()


def test_an_engine_behind_tls_is_refused_with_another_way(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ca.pem", "cert.pem", "key.pem"):
        (folder / name).touch()
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
    monkeypatch.setenv("DOCKER_TLS_VERIFY", "1")
    monkeypatch.setenv("DOCKER_CERT_PATH", str(folder))
    with pytest.raises(UnsupportedError, match="over=ssh"), create_environment("docker") as env:
        env.execute("true")
