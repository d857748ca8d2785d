"""The settings of hermes-agent for a place, made before the first import of hermes-agent."""

from __future__ import annotations

import os
import shlex
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from place import PLACE

GIVEN = PLACE.settings
BACKEND = PLACE.own or str(GIVEN["backend"])
os.environ |= {"TERMINAL_ENV": BACKEND, "TERMINAL_DOCKER_PERSIST_ACROSS_PROCESSES": "false"}
os.environ["TERMINAL_CWD"] = tempfile.mkdtemp() if BACKEND in ("local", "ssh") else "/tmp"
if GIVEN.get("image"):
    os.environ[f"TERMINAL_{BACKEND.upper()}_IMAGE"] = str(GIVEN["image"])
if BACKEND == "ssh":
    os.environ |= {f"TERMINAL_SSH_{name.upper()}": str(GIVEN[name]) for name in ("host", "port", "key")}
    os.environ["TERMINAL_SSH_USER"] = Path.home().owner()


@pytest.fixture(scope="session", autouse=True)
def where(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The environments of the tools: ours, or hermes-agent's own."""
    from tools.terminal_tool import cleanup_all_environments

    if not PLACE.own:
        from hermes_env.plugs.hermes_agent import install

        more = {name: value for name, value in GIVEN.items() if name not in ("backend", "host", "port", "key", "image")}
        with install(**more):
            yield
    else:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PATH", _ssh_of_these_hosts(tmp_path_factory.mktemp("bin")), prepend=os.pathsep)
            yield
            cleanup_all_environments()
    if BACKEND in ("local", "ssh"):
        shutil.rmtree(os.environ["TERMINAL_CWD"])


def _ssh_of_these_hosts(folder: Path) -> str:
    """Make programs that take the server's key from a configuration, and write no key to this user's own file."""
    for program in ("ssh", "scp"):
        script = folder / program
        config = shlex.quote(str(GIVEN.get("ssh_config", "/dev/null")))
        script.write_text(f'#!/bin/sh\nexec {shutil.which(program)} -F {config} "$@"\n')
        script.chmod(0o755)
    return str(folder)
