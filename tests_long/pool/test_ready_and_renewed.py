"""A pool's demands on an environment: a start ahead of use, a report of its loss, and a reset."""

from __future__ import annotations

from pathlib import Path

import pytest
from targets.backends import Backend, local, without_bash
from targets.processes import all_gone
from targets.renew_check import check_renew

from environments import create_environment
from environments.shell.kill import ProcessTree


@pytest.mark.parametrize("backend", [local, without_bash], ids=lambda backend: backend.__name__)
def test_renew_resets_a_used_environment(backend: Backend, tmp_path: Path, nap: str) -> None:
    with backend(tmp_path) as subject:
        check_renew(subject, nap)


def test_on_this_machine_no_shell_searches_for_leftovers(monkeypatch: pytest.MonkeyPatch, nap: str) -> None:
    asked: list[float] = []
    end = ProcessTree.end
    monkeypatch.setattr(ProcessTree, "end", lambda tree, grace: asked.append(grace) or end(tree, grace))
    with create_environment("local") as env:
        env.prepare()
        env.renew()
        env.prepare()
        assert not asked
        env.execute(f"setsid sleep {nap} &")
        env.renew()
        assert asked
        assert all_gone(nap)
