"""What a pool asks of an environment: to be ready ahead, to say when it is lost, and to begin anew."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from targets.backends import BACKENDS
from targets.borrowing import until
from targets.processes import all_gone

from environments import TerminalError, UnsupportedError, create_environment
from environments.conformance import Subject
from environments.readiness import Readiness
from environments.settings import EnvironmentSettings
from environments.shell.process_tree import ProcessTree


@pytest.fixture(params=BACKENDS, ids=lambda backend: backend.__name__)
def subject(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Subject]:
    with request.param(tmp_path) as subject:
        yield subject


LEAVE = "export LEFT=export; LEFT_VARIABLE=variable; left() { :; }; cd /; trap '' TERM; sleep {nap} & (sleep {nap} &)"
LOOK = 'echo "${LEFT-none} ${LEFT_VARIABLE-none}"; command -v left; pwd'


def having(nap: str) -> str:
    """Return a command that prints what has a number among its arguments, and has it not among its own."""
    return f"grep -ls '[{nap[0]}]{nap[1:]}' /proc/[0-9]*/cmdline"


def test_a_used_environment_begins_anew(subject: Subject, nap: str) -> None:
    with subject.make() as env:
        env.prepare()
        assert env.is_ready
        began = env.execute("pwd").output
        env.write_bytes(f"{env.scratch_directory()}/gone", b"x")
        scratch = env.scratch_directory()
        env.execute(LEAVE.replace("{nap}", nap))
        env.start(f"sleep {nap}")
        env.session("other").execute(f"export LEFT=other; sleep {nap} &")
        assert until(lambda: env.execute_oneshot(having(nap)).output.count("\n") >= 4)
        env.renew()
        env.prepare()
        assert env.is_ready
        assert env.execute(having(nap)).output == ""
        assert env.execute(LOOK).output == f"none none\n{began}"
        assert env.session("other").execute("echo ${LEFT-none}").output == "none\n"
        assert env.execute(f"ls {scratch}").exit_code != 0
        assert env.execute("wc -c", stdin="x" * 200_000).output.strip() == "200000", "by another directory of ours"


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


def test_what_is_lost_or_over_is_not_ready(subject: Subject) -> None:
    with subject.make() as env:
        assert not env.is_ready, "nothing was started"
        env.prepare()
        if subject.lose_target:
            subject.lose_target(env)
            assert until(lambda: not env.is_ready)
    assert not env.is_ready
    with pytest.raises(TerminalError):
        env.renew()


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
