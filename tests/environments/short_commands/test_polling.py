"""A process that is asked for its output waits in the target until there is some."""

from __future__ import annotations

from pathlib import Path

from targets.per_command_local import PerCommandLocal

from environments import load_settings


def test_a_command_of_some_seconds_costs_no_more_round_trips_than_a_short_one_and_one(tmp_path: Path) -> None:
    with PerCommandLocal(load_settings("local", cwd=str(tmp_path))) as env:
        for run in (env.execute, env.execute_oneshot):
            run("true")
            before = env.commands
            run("true")
            short, before = env.commands - before, env.commands
            run("sleep 3")
            assert env.commands - before <= short + 1
