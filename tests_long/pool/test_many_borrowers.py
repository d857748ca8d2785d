"""Leases of a pool's environments: their number, duration, order and state."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from targets.lease_threads import LONG, LeaseThread
from targets.processes import all_gone


def test_a_pool_never_exceeds_max(scripted_pool, starts) -> None:
    pool = scripted_pool(min=2, max=3)
    with ThreadPoolExecutor(12) as threads:
        done = [threads.submit(lambda: LeaseThread(pool).join()) for _ in range(24)]
    assert [each.result() for each in done] == ["works\n"] * 24
    assert starts.most_up <= 3
    assert pool.stats().started >= 24


def test_60_borrowers_share_8_environments(make) -> None:
    pool = make(max=8, uses=20)

    def echo(number: int) -> object:
        return LeaseThread(pool, lambda env: env.execute(f"echo {number}").output).join()

    with ThreadPoolExecutor(60) as threads:
        done = list(threads.map(echo, range(60)))
    assert done == [f"{number}\n" for number in range(60)]
    stats = pool.stats()
    assert stats.waiting == stats.lent == 0 and stats.idle + stats.starting + stats.ending <= 8


LEFT_OPEN = """
import sys
from environments import Pool
pool = Pool("local", min=2)
with pool.environment() as env:
    env.execute(f"sleep {sys.argv[1]} &")
    lent = pool.environment()
    lent.__enter__().execute(f"(setsid sleep {sys.argv[1]} &)")
    sys.exit(7)
"""


def test_a_pool_that_nobody_closes_is_closed_at_exit(tmp_path: Path, nap: str) -> None:
    command = [sys.executable, "-W", "error", "-c", LEFT_OPEN, nap]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=LONG, check=False)
    assert (done.returncode, done.stderr) == (7, "")
    assert all_gone(nap)
