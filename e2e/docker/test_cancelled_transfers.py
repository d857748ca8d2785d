"""Transfers that are cancelled half way, over the engine's sockets."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from targets.cut_transfers import cancel_half_way, record_killed_shells
from targets.docker_fixtures import MakeDocker

LARGE = 3_000_000


def test_the_shell_of_a_cancelled_transfer_survives(
    docker_environment: MakeDocker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shell abandoned while its command ends would cost two full time-outs."""
    monkeypatch.setattr("environments.progress.INTERVAL", 0)
    killed_shells = record_killed_shells(monkeypatch)
    here = tmp_path / "here"
    here.mkdir()
    (here / "large").write_bytes(os.urandom(LARGE))
    env = docker_environment()
    env.put_dir(here, "there")
    transfers: dict[str, Callable[[], object]] = {
        "get_file": lambda: env.get_file("there/large", tmp_path / "new"),
        "get_dir": lambda: env.get_dir("there", tmp_path / "sub"),
        "put_file": lambda: env.put_file(here / "large", "new"),
        "put_dir": lambda: env.put_dir(here, "sub"),
    }
    for name, transfer in transfers.items():
        cancel_half_way(env, transfer)
        assert killed_shells == [], name
    env.progress.callback = None
    assert env.execute("echo on").output == "on\n"
