"""Background processes as a model sees them, on every backend."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from targets import backends

from environments import BaseEnvironment, UnsupportedError
from environments.conformance import Subject
from environments.conformance.check import running, unique, wait_until
from hermes_tools.process import process
from hermes_tools.terminal import background_process, terminal

_CAN_BE_LOST = (
    backends.docker,
    backends.ssh,
    backends.singularity,
    backends.per_command,
    backends.modal,
    backends.daytona,
)
_ON = (backends.local, backends.without_bash, *_CAN_BE_LOST)


def _name(backend: object) -> str:
    return backend.__name__  # type: ignore[attr-defined,no-any-return]


@pytest.fixture(scope="module", params=_ON, ids=_name)
def subject(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Subject]:
    with request.param(tmp_path_factory.mktemp("session")) as made:
        yield made
        made.close()


@pytest.fixture
def env(subject: Subject) -> BaseEnvironment:
    return subject.env


def _started(env: BaseEnvironment, command: str, **how: object) -> str:
    return terminal(env, command, background=True, **how)["process_id"]  # type: ignore[arg-type]


def _waited(env: BaseEnvironment, process_id: str) -> dict[str, object]:
    return dict(process(env, "wait", process_id, timeout=60))


def test_its_output_input_and_end_are_at_hand(env: BaseEnvironment) -> None:
    started = _started(env, "echo begun; read -r word; echo got $word; exit 4")
    assert wait_until(lambda: process(env, "log", started)["output"] == "begun\n")
    assert process(env, "poll", started)["output"] == "begun\n"
    assert process(env, "poll", started)["output"] == ""
    assert "error" not in process(env, "submit", started, data="this")
    ended = _waited(env, started)
    assert (ended["status"], ended["exit_code"], ended["output"]) == ("exited", 4, "got this\n")
    assert process(env, "log", started)["output"] == "begun\ngot this\n"
    assert started in [listed["process_id"] for listed in process(env, "list")["processes"]]


def test_it_is_killed_with_all_it_started(env: BaseEnvironment) -> None:
    word = unique()
    started = _started(env, f"(sh -c ': {word}; while :; do sleep 100; done' &); echo up; sleep 1000")
    assert wait_until(lambda: running(env, word) > 0)
    killed = process(env, "kill", started)
    assert (killed["status"], killed["output"]) == ("killed", "up\n")
    assert wait_until(lambda: running(env, word) == 0, 2)
    assert process(env, "kill", started)["status"] == "killed"


def test_a_terminal_is_one_in_the_background_and_in_the_foreground(env: BaseEnvironment) -> None:
    if not env.capabilities.pty:
        with pytest.raises(UnsupportedError, match="pty"):
            terminal(env, "true", pty=True)
        return
    assert terminal(env, "test -t 1 && echo terminal; exit 5", pty=True) == {
        "output": "terminal\n",
        "exit_code": 5,
        "error": None,
    }
    started = _started(env, "test -t 1 && echo terminal; read -r word; echo got $word", pty=True)
    assert wait_until(lambda: "terminal" in str(process(env, "log", started)["output"]))
    process(env, "submit", started, data="this")
    ended = _waited(env, started)
    assert ended["status"] == "exited"
    assert str(ended["output"]).endswith("got this\n")


def test_its_end_and_what_it_prints_are_told(env: BaseEnvironment) -> None:
    terminal(env, "true")
    started = _started(env, "echo now ready; exit 3", notify_on_exit=True, watch=["ready"])
    background_process(started).wait(60)
    told = [*terminal(env, "true").get("notices", []), *_waited(env, started).get("notices", [])]  # type: ignore[misc]
    kinds = {notice["kind"]: notice for notice in told if notice["process_id"] == started}
    assert kinds["watch"]["text"] == "now ready"
    assert (kinds["exit"]["status"], kinds["exit"]["exit_code"]) == ("exited", 3)


def test_much_output_neither_blocks_it_nor_is_kept(env: BaseEnvironment) -> None:
    started = _started(env, "yes 123456789 | head -n 500000; echo end")
    assert _waited(env, started)["status"] == "exited"
    log = process(env, "log", started, offset=-1)
    assert (log["output"], log["total_lines"]) == ("end\n", 500001)
    first = process(env, "log", started, limit=10**6)
    assert 0 < 10 * (500001 - first["offset"]) <= 200_010


@pytest.mark.parametrize("subject", _CAN_BE_LOST, indirect=True, ids=_name)
def test_its_output_outlives_its_target(subject: Subject) -> None:
    assert subject.lose_target
    with subject.make() as env:
        started = _started(env, "echo before; sleep 1000")
        assert wait_until(lambda: process(env, "log", started)["output"] == "before\n")
        subject.lose_target(env)
        ended = _waited(env, started)
        assert (ended["status"], ended["exit_code"]) == ("lost", None)
        assert ended["error"]
        assert process(env, "log", started)["output"] == "before\n"
        assert process(env, "kill", started)["status"] == "lost"
        assert "error" in process(env, "write", started, data="x")
