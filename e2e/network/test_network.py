"""Targets that reach only listed hosts: pip, git, curl and Python on each backend with a proxy."""

from __future__ import annotations

import contextlib
import ensurepip
import io
import json
import os
import subprocess
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from targets.backends import Backend, bubblewrap, docker, docker_minimal, docker_over_ssh, podman, singularity
from targets.local_proxy import RecordingWebServer, web

from code_execution import execute_code
from environments import BaseEnvironment, EnvironmentStartError, UnsupportedError
from environments.conformance import Subject
from environments.conformance.check import wait_until
from environments.errors import EnvironmentLostError

BACKENDS = [docker, podman, bubblewrap, singularity]
GET = "python3 -c \"import urllib.request as u; print(u.urlopen('http://{}').read().decode())\" 2>&1 | tail -1"
STARTED_ANEW = "the network proxy in the target had ended, and was started anew"


@pytest.fixture(scope="module", params=BACKENDS, ids=lambda backend: backend.__name__)
def subject(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Subject]:
    with request.param(tmp_path_factory.mktemp("cwd")) as subject:
        yield subject


@pytest.fixture(scope="module")
def server() -> Iterator[RecordingWebServer]:
    with web() as server:
        yield server


@pytest.fixture(scope="module")
def env(subject: Subject, server: RecordingWebServer) -> Iterator[BaseEnvironment]:
    with subject.make(network=[server.place, "*.example.org"]) as env:
        yield env


def output_of(env: BaseEnvironment, command: str) -> str:
    return env.execute(command).output.strip()


def wheel() -> bytes:
    """Return the wheel of a package for pip."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as package:
        package.writestr("tiny.py", "answer = 42\n")
        package.writestr("tiny-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
        package.writestr("tiny-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        package.writestr("tiny-1.0.dist-info/RECORD", "tiny.py,,\n")
    return made.getvalue()


def repository(folder: Path) -> dict[str, bytes]:
    """Return the files of a git repository as a plain web server serves them."""
    work, bare = folder / "work", folder / "it.git"
    identity = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a"}
    work.mkdir()
    (work / "file").write_text("of git\n")
    for command in ("init -q", "add file", "commit -q -m first", f"clone -q --bare . {bare}"):
        subprocess.run(["git", *command.split()], cwd=work, env={**os.environ, **identity}, check=True)
    subprocess.run(["git", "update-server-info"], cwd=bare, check=True)
    return {f"/{path.relative_to(folder)}": path.read_bytes() for path in bare.rglob("*") if path.is_file()}


def test_programs_reach_listed_hosts_alone(subject: Subject, tmp_path: Path) -> None:
    pip = next((Path(ensurepip.__file__).parent / "_bundled").glob("pip-*.whl"))
    install = (
        "PIP_ROOT_USER_ACTION=ignore python3 /tmp/pip.whl/pip install -q --no-cache-dir --retries 0 --target /tmp/made"
    )
    with web() as server, subject.make(network=[server.place, "*.example.org"]) as env:
        server.files = {
            "/simple/tiny/": b'<a href="/tiny-1.0-py3-none-any.whl">tiny-1.0-py3-none-any.whl</a>',
            "/tiny-1.0-py3-none-any.whl": wheel(),
            **repository(tmp_path),
        }
        env.put_file(pip, "/tmp/pip.whl")
        aloud = install.replace(" -q", "").replace("retries 0", "retries 1")  # otherwise pip does not print the reason
        refused = output_of(env, f"{aloud} --index-url https://index.example/simple tiny 2>&1")
        assert "403 index.example is not in the list of hosts" in refused
        index = f"--index-url http://{server.place}/simple --trusted-host 127.0.0.2"
        assert output_of(env, f"{install} {index} tiny 2>&1; cat /tmp/made/tiny.py") == "answer = 42"

        refused = output_of(env, "git clone -q https://git.example/it.git /tmp/refused 2>&1")
        assert "403" in refused
        clone = f"git clone -q http://{server.place}/it.git /tmp/it 2>&1; cat /tmp/it/file"
        assert output_of(env, clone) == "of git"

        if env.backend == "bubblewrap":  # this machine's curl is visible there
            refused = output_of(env, "curl -sS http://web.example/ 2>&1; curl -sS https://web.example/ 2>&1")
            assert "add web.example:80 to the network setting" in refused
            assert "403" in refused.splitlines()[-1]
            assert "tiny-1.0" in output_of(env, f"curl -sS http://{server.place}/simple/tiny/")


def test_there_is_no_connection_but_through_the_proxy(env: BaseEnvironment, server: RecordingWebServer) -> None:
    connect = "import socket; s = socket.socket(); s.settimeout(5); print(s.connect_ex({!r}))"
    assert output_of(env, f'python3 -c "{connect.format(("192.0.2.1", 80))}"') == "101", "the network is unreachable"
    assert output_of(env, f'python3 -c "{connect.format(("127.0.0.2", server.port))}"') == "111", "of its own loopback"
    resolve = "import socket\ntry: socket.getaddrinfo('www.example.org', 80)\nexcept OSError: print('unknown')"
    assert output_of(env, f'python3 -c "{resolve}"') == "unknown"


def test_servers_in_the_target_are_reached_without_the_proxy(env: BaseEnvironment) -> None:
    process = env.start("cd /tmp && exec python3 -m http.server --bind 127.0.0.1 8123")
    get = "python3 -c \"import urllib.request as u; print(u.urlopen('http://localhost:8123/').status)\" 2>/dev/null"
    assert output_of(env, f"for i in 1 2 3 4 5 6 7 8 9; do {get} && break; sleep 0.3; done") == "200"
    process.kill()


def test_every_kind_of_command_uses_the_proxy(env: BaseEnvironment, server: RecordingWebServer) -> None:
    get = GET.format(f"{server.place}/it")
    script = f"import urllib.request as u; print(u.urlopen('http://{server.place}/it').read().decode())"
    process = env.start(get)
    process.wait()
    assert process.read() == "this is /it\n"
    with env.session("other") as session:
        assert session.execute(get).output == "this is /it\n"
    assert env.execute(get).output == env.execute_oneshot(get).output == "this is /it\n"
    for mode in ("project", "strict"):
        assert execute_code(script, env=env, tools={}, mode=mode).output == "this is /it\n"


def test_set_network_takes_effect_at_once(env: BaseEnvironment, server: RecordingWebServer) -> None:
    get = GET.format(f"{server.place}/it")
    for network in (["other.example"], "none", []):
        env.set_network(network)
        assert "403: 127.0.0.2 is not in the list of hosts" in output_of(env, get)
    with pytest.raises(UnsupportedError, match="make an environment with network='full'"):
        env.set_network("full")
    env.set_network([server.place])
    assert output_of(env, get) == "this is /it"
    env.set_network([])
    env.renew()
    assert output_of(env, get) == "this is /it", "renew() restores the list of the settings"


def test_the_proxy_survives_time_outs(env: BaseEnvironment, server: RecordingWebServer) -> None:
    assert env.execute("sleep 100 & sleep 100", timeout=0.3).timed_out
    assert env.execute_oneshot("sleep 100", timeout=0.3).timed_out
    result = env.execute(GET.format(f"{server.place}/it"))
    assert (result.output, result.note) == ("this is /it\n", None)


def test_a_killed_proxy_is_restarted_and_the_next_result_has_a_note(
    env: BaseEnvironment, server: RecordingWebServer
) -> None:
    env.execute("for p in $(grep -lz 'import os' /proc/[0-9]*/cmdline); do p=${p%/cmdline}; kill -9 ${p#/proc/}; done")
    deadline = time.monotonic() + 20
    while env.network._proxy.is_up and time.monotonic() < deadline:  # type: ignore[attr-defined]
        time.sleep(0.01)
    result = env.execute(GET.format(f"{server.place}/it"))
    assert (result.output, result.note) == ("this is /it\n", STARTED_ANEW)
    assert env.execute("true").note is None


def test_a_refusal_is_in_the_record(subject: Subject, tmp_path: Path) -> None:
    with subject.make(network=["example.org"], record=str(tmp_path / "record")) as env:
        env.execute(GET.format("other.example:8080/"))
    events = [json.loads(line) for line in (tmp_path / "record").read_text().splitlines()]
    refused = [event for event in events if event["event"] == "network_refused"]
    assert [(event["host"], event["port"]) for event in refused] == [("other.example", 8080)]


def test_a_lost_target_gets_a_new_proxy(subject: Subject, server: RecordingWebServer) -> None:
    assert subject.lose_target
    with subject.make(network=[server.place]) as env:
        assert output_of(env, GET.format(f"{server.place}/it")) == "this is /it"
        env.set_network([server.place, "example.org"])
        subject.lose_target(env)

        def answers() -> bool:
            with contextlib.suppress(EnvironmentLostError):  # the loss may fail one or two calls
                return output_of(env, GET.format(f"{server.place}/it")) == "this is /it"
            return False

        assert wait_until(answers, 30)


def test_a_fork_begins_with_the_list_in_force(tmp_path: Path) -> None:
    with docker(tmp_path) as subject, subject.make(network=["example.org"]) as env:
        env.set_network(["other.example"])
        with env.fork() as fork:
            assert "example.org is not in the list" in output_of(fork, GET.format("example.org/"))


def test_a_list_cannot_be_set_on_an_environment_without_a_proxy(subject: Subject) -> None:
    with subject.make(network="none") as env, pytest.raises(UnsupportedError, match="network as a list"):
        env.set_network(["example.org"])


def test_an_image_without_python_is_refused_with_the_remedy(tmp_path: Path) -> None:
    no_python = pytest.raises(EnvironmentStartError, match="use an image with python3")
    with docker_minimal(tmp_path) as subject, subject.make(network=["example.org"]) as env, no_python:
        env.execute("true")


@pytest.mark.parametrize("backend", [docker_over_ssh], ids=lambda backend: backend.__name__)
def test_an_engine_on_another_host_has_the_proxy(backend: Backend, tmp_path: Path) -> None:
    with backend(tmp_path) as subject, web() as server, subject.make(network=[server.place]) as env:
        assert output_of(env, GET.format(f"{server.place}/it")) == "this is /it"
