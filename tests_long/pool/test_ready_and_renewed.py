"""What a pool asks of an environment: to be ready ahead, to report that it is lost, and to begin anew."""

from __future__ import annotations

from pathlib import Path

import pytest
from targets.backends import Backend, local, without_bash
from targets.processes import all_gone
from targets.renewal import check_that_a_used_environment_begins_anew

from environments import UnsupportedError, create_environment
from environments.base import Readiness
from environments.settings import EnvironmentSettings
from environments.shell.kill import ProcessTree


@pytest.mark.parametrize("backend", [local, without_bash], ids=lambda backend: backend.__name__)
def test_a_used_environment_begins_anew(backend: Backend, tmp_path: Path, nap: str) -> None:
    with backend(tmp_path) as subject:
        check_that_a_used_environment_begins_anew(subject, nap)


def test_no_shell_looks_for_what_is_left_on_this_machine(monkeypatch: pytest.MonkeyPatch, nap: str) -> None:
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


def test_a_backend_that_cannot_begin_anew_says_so() -> None:
    class Plain(Readiness):
        settings = EnvironmentSettings(env="plain")

        def session_variable(self, name: str) -> str:
            return name

    plain = Plain()
    plain.prepare()
    assert plain.is_ready
    assert plain.start_place(plain.settings) == ""
    with pytest.raises(UnsupportedError, match="backend 'plain' cannot have a new session in the same target"):
        plain.renew()
