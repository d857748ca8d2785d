"""The tool `process` on containers and SSH servers."""

from __future__ import annotations

from pathlib import Path

import pytest
from targets import backends

from environments.conformance.check import running, unique, wait_until
from hermes_tools.process import process
from hermes_tools.terminal import terminal


@pytest.mark.parametrize("backend", [backends.docker, backends.ssh], ids=lambda backend: backend.__name__)
def test_a_process_is_killed_with_its_children_and_its_output_outlives_the_target(
    backend: backends.Backend, tmp_path: Path
) -> None:
    with backend(tmp_path) as subject, subject.make() as env:
        word = unique()
        command = f"(sh -c ': {word}; while :; do sleep 100; done' &); echo up; sleep 1000"
        killed, lost = (terminal(env, command, background=True)["process_id"] for _ in range(2))
        for started in (killed, lost):
            assert wait_until(lambda started=started: process(env, "log", started)["output"] == "up\n", 60)
        answer = process(env, "kill", killed)
        assert (answer["status"], answer["output"]) == ("killed", "up\n")
        assert wait_until(lambda: running(env, word) == 1, 60)
        subject.lose_target(env)
        ended = process(env, "wait", lost, timeout=60)
        assert (ended["status"], ended["exit_code"], bool(ended["error"])) == ("lost", None, True)
        assert process(env, "log", lost)["output"] == "up\n"
        assert process(env, "kill", lost)["status"] == "lost"
        assert "error" in process(env, "write", lost, data="x")
