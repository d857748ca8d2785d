"""Our sandboxes as `hermes-env ls` finds them, and their removal."""

from __future__ import annotations

import os

import pytest
from standins.in_process import use_and_be_killed

from environments import TerminalError
from environments.claim import Claim
from environments.daytona import DaytonaEnvironment
from environments.daytona.sandbox import key_of
from environments.found_target import FoundTarget
from environments.short_commands.sandbox import claim_name


def of_task(task: str) -> list[FoundTarget]:
    return [target for target in DaytonaEnvironment.list_targets() if target.task == task]


def test_a_sandbox_is_listed_with_its_owner_and_removed_only_by_force(make) -> None:
    make(task_id="used").execute("true")
    (found,) = of_task("used")
    assert (found.kind, found.state, found.use, found.pid) == ("sandbox", "running", "live", os.getpid())
    with pytest.raises(TerminalError, match=f"sandbox {found.short_id} is not removed, as a process still uses it"):
        found.remove(False)
    found.remove(True)
    assert of_task("used") == []
    found.remove(True)


def test_a_sandbox_that_is_kept_is_free_until_it_is_taken_up(make) -> None:
    env = make(task_id="kept", container_persistent=True)
    env.execute("true")
    (found,) = of_task("kept")
    assert (found.state, found.use) == ("running", "live")
    env.cleanup()
    (found,) = of_task("kept")
    assert (found.state, found.use, found.pid) == ("stopped", "free", None)
    claim = Claim(claim_name("daytona", key_of(env.settings)))  # as an environment that is acquiring the sandbox
    assert claim.acquire()
    with pytest.raises(TerminalError, match="a process still uses it"):
        found.remove(False)
    claim.release()
    found.remove(False)
    assert of_task("kept") == []


@pytest.mark.alone("garbage")
def test_the_sandbox_of_a_killed_process_is_an_orphan(service, nap) -> None:
    pid = use_and_be_killed("daytona", "orphan-listed", "not kept", nap)
    (found,) = of_task("orphan-listed")
    assert (found.use, found.pid) == ("orphan", pid)
    found.remove(False)
    assert of_task("orphan-listed") == []
