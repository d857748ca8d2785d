"""Installs without an extra and with each extra alone: all else works, or names the missing extra in its error."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from targets.small_install import EXTRAS, ROOT, python_with, variables

from environments.registry import BUILT_IN

pytestmark = pytest.mark.timeout(900)  # the first run installs packages
Run = Callable[..., "subprocess.CompletedProcess[str]"]

# Namespaces of its own: otherwise `gc` finds leftovers that other tests have yet to collect.
IN_NAMESPACES = ("unshare", "--map-root-user", "--pid", "--mount", "--fork", "--mount-proc")
IMPORT_ALL = """
import importlib, sys
for package in ("environments", "environments.conformance", "rpc", "hermes_tools", "code_execution"):
    module = importlib.import_module(package)
    for name in module.__all__:
        getattr(module, name)
for wing in sys.argv[1:]:
    module = importlib.import_module(f"environments.{wing}")
    for name in module.__all__:
        try:
            getattr(module, name)
        except ImportError as error:
            print(f"{type(error).__name__} {wing}: {error}")
"""
USE_THE_WEB = """
import http.server, json, os, threading
from hermes_tools import web_extract, web_search

class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        is_search = self.path.startswith("/search")
        body = b'{"results": []}' if is_search else b"<html><title>Title</title><p>A paragraph.</p></html>"
        self.send_response(200)
        self.send_header("Content-Type", "application/json" if is_search else "text/html")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}"
os.environ.update(WEB_ALLOW_PRIVATE="127.0.0.1", SEARXNG_URL=url, TERMINAL_ENV="local")
print(json.dumps([web_extract([url]), web_search("anything")]))
"""


@pytest.fixture(params=EXTRAS, ids=lambda extra: extra or "none")
def extra(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def run(extra: str, tmp_path: Path) -> Run:
    def run(
        *words: str, before: tuple[str, ...] = (), python: str = str(python_with(extra))
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*before, python, *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=variables(tmp_path),
            cwd=tmp_path,
            check=False,
        )

    return run


def missing_with(extra: str) -> set[str]:
    return set(BUILT_IN) - {"local", "bubblewrap", "singularity", extra}


@pytest.mark.parametrize("extra", [""], indirect=True, ids=["none"])
def test_the_command_line_works(run: Run, extra: str) -> None:
    shown = run("-m", "hermes_env", "--help")
    assert (shown.returncode, shown.stderr) == (0, "")
    done = run("-m", "hermes_env", "exec", "--", "true")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    collected = run("-m", "hermes_env", "gc", before=IN_NAMESPACES)
    assert (collected.returncode, collected.stdout) == (0, "nothing to collect\n")
    assert "Traceback" not in collected.stderr


def test_doctor_names_the_extra_of_each_backend_that_lacks_its_client(run: Run, extra: str) -> None:
    done = run("-m", "hermes_env", "doctor")
    assert (done.returncode, done.stderr) == (0, "")
    needed = [line.split() for line in done.stdout.splitlines() if "pip install 'hermes-environments[" in line]
    assert {words[0] for words in needed} == missing_with(extra)
    assert {words[1] for words in needed} == {"missing"}


@pytest.mark.parametrize("extra", [""], indirect=True, ids=["none"])
def test_the_commands_that_are_named_bring_the_clients_also_with_a_checkout(run: Run, extra: str) -> None:
    refused = run("-c", IMPORT_ALL, *BUILT_IN).stdout.splitlines()
    assert len(refused) == len(missing_with(extra))
    commands = [shlex.split(said.partition("from a checkout: ")[2]) for said in refused]
    assert all(words[:2] == ["pip", "install"] for words in commands)
    named = [wanted for words in commands for wanted in words[2:]]
    install = [sys.executable, "-m", "pip", "install", "--dry-run", *named]
    done = subprocess.run(install, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "does not provide the extra" not in done.stdout + done.stderr


def test_every_public_name_can_be_imported_or_names_its_extra(run: Run, extra: str) -> None:
    done = run("-c", IMPORT_ALL, *BUILT_IN)
    assert (done.returncode, done.stderr) == (0, "")
    refused = dict(line.removeprefix("MissingExtraError ").split(": ", 1) for line in done.stdout.splitlines())
    assert refused.keys() == missing_with(extra)
    assert all(f"hermes-environments[{backend}]" in said for backend, said in refused.items())


def test_the_web_tools_work_or_name_their_extra(run: Run, extra: str) -> None:
    done = run("-W", "error", "-c", USE_THE_WEB)
    assert (done.returncode, done.stderr) == (0, "")
    page, search = json.loads(done.stdout)
    if extra == "web":
        (result,) = page["results"]
        assert (result["title"], result["content"], result["error"]) == ("Title", "A paragraph.", None)
        assert search == {"data": {"web": []}}
    else:
        assert "pip install 'hermes-environments[web]'" in page["error"]
        assert (
            extra == "daytona" or "pip install 'hermes-environments[web]'" in search["error"]
        )  # daytona brings httpx, too


def test_rules_work_and_the_policy_for_destructive_commands_works_or_names_its_extra(
    run: Run, extra: str, tmp_path: Path
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("approvals: {deny: [curl]}")
    assert run("-m", "hermes_env", "exec", "--", "true; 'true' x").returncode == 0
    assert run("-m", "hermes_env", "exec", "--", "true; sudo curl x").returncode == 126
    config.write_text("approvals: {destructive_commands: deny}")
    done = run("-m", "hermes_env", "exec", "--", "rm -rf /")
    if extra == "approvals":
        assert (done.returncode, done.stdout) == (126, "")
        assert run("-m", "hermes_env", "exec", "--", "x=$(true)").returncode == 0
    else:
        assert (done.returncode, done.stdout) == (125, "")
        assert "pip install 'hermes-environments[approvals]'" in done.stderr
        assert done.stderr.count("\n") == 1


def test_a_backend_that_lacks_its_client_is_refused_with_its_extra(run: Run, extra: str) -> None:
    backend = "docker" if extra == "daytona" else "daytona"
    done = run("-m", "hermes_env", "exec", "--backend", backend, "--", "true")
    assert (done.returncode, done.stdout) == (125, "")
    assert done.stderr.startswith(f"hermes-env: backend '{backend}' needs the ")
    assert done.stderr.count("\n") == 1
