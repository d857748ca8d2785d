"""A check of `fork` for any backend with snapshots."""

from __future__ import annotations

from collections.abc import Callable

from environments import BaseEnvironment


def check_forks(env: BaseEnvironment, snapshots: Callable[[], int]) -> None:
    """Check that forks begin alike, are independent, and end, also an unused fork.

    Args:
        env: The environment.
        snapshots: Counts the snapshots of forks.
    """
    before = snapshots()
    env.execute("echo begun >~/file")
    forks = [env.fork() for _ in range(2)]
    unused = env.fork()
    assert snapshots() == before + 3
    for fork in forks:
        assert fork.execute("cat ~/file; echo own >~/file").output == "begun\n"
    with forks[0].fork() as of_fork:
        forks[0].cleanup()
        assert of_fork.execute("cat ~/file").output == "own\n"
    assert env.execute("cat ~/file").output == "begun\n"
    forks[1].cleanup()
    unused.cleanup()
