"""Fork bombs in an instance that limits processes."""

from __future__ import annotations

from pathlib import Path

import pytest
from targets.engines import require_singularity
from targets.singularity_engine import engine_in

FORKING = """
import os, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
while True:
    try:
        os.fork() or os.setsid()
    except OSError:
        pass
"""


def test_a_fork_bomb_ends_with_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = engine_in(require_singularity(), tmp_path, monkeypatch)
    with engine.make(container_pids=100) as env:
        env.execute("cd /opt; kept=yes")
        for run in (env.execute, env.execute_oneshot):
            for bomb in ("bomb() { bomb | bomb & }; bomb; sleep 1000", f"python3 -c '{FORKING}'"):
                result = run(bomb, timeout=3)
                assert result.timed_out and not result.survivors
                assert env.execute("pwd; echo $kept; (echo forked)").output == "/opt\nyes\nforked\n"
