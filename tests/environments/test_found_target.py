"""Use of a found target, by its owner and its claim, and its removal."""

from __future__ import annotations

from pathlib import Path

import pytest

from environments import TerminalError
from environments.claim import Claim
from environments.found_target import FoundTarget, State
from environments.owner import UNKNOWN, Owner

HERE = Owner.this_process()
ENDED = HERE._replace(started="earlier")
CLAIM = "of-a-target"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    return tmp_path


def target(state: State, owner: Owner | None, *, kept: bool, done: list[str] | None = None) -> FoundTarget:
    """Return a target that records its removal."""
    recorded = [] if done is None else done
    claim = Claim(CLAIM) if kept else None
    aside = (lambda: recorded.append("set aside")) if kept else None
    return FoundTarget(
        "box", "b-1", state, lambda: recorded.append("deleted"), owner=owner, claim=claim, set_aside=aside
    )


def test_the_owner_decides_about_the_use_of_a_target() -> None:
    for owner, use, pid in ((HERE, "live", HERE.pid), (ENDED, "orphan", HERE.pid), (UNKNOWN, "elsewhere", None)):
        found = target("stopped", owner, kept=False)
        assert (found.use, found.pid, found.is_in_use) == (use, pid, use != "orphan")
        assert target("running", Owner.in_name(f"{owner.mark}-0123abcd-task"), kept=False).use == use
    assert target("kept", None, kept=False).use == "free"


def test_the_claim_decides_about_the_use_of_a_kept_target() -> None:
    free = {("running", HERE): "live", ("running", ENDED): "orphan", ("running", None): "orphan"}
    free |= {("stopped", HERE): "free", ("stopped", ENDED): "free", ("kept", None): "free"}
    for (state, owner), use in free.items():
        assert target(state, owner, kept=True).use == use
    other = Claim(CLAIM)
    assert other.acquire()
    for state, owner in free:
        assert target(state, owner, kept=True).use == "live"
    assert target("running", UNKNOWN, kept=True).use == "elsewhere", "its claim is of another machine"
    other.release()


def test_a_target_in_use_is_removed_only_by_force() -> None:
    done: list[str] = []
    for owner, why in ((HERE, "a process still uses it"), (UNKNOWN, "it belongs to another machine")):
        found = target("running", owner, kept=False, done=done)
        with pytest.raises(TerminalError, match=f"box b-1 is not removed, as {why}"):
            found.remove()
        assert done == []
        found.remove(force=True)
        assert done.pop() == "deleted"
    target("running", ENDED, kept=False, done=done).remove()
    assert done == ["deleted"]


def test_a_target_that_is_reused_after_the_listing_is_neither_removed_nor_collected(home: Path) -> None:
    done: list[str] = []
    kept = target("stopped", ENDED, kept=True, done=done)
    orphan = target("running", ENDED, kept=True, done=done)
    assert (kept.use, orphan.use) == ("free", "orphan")
    other = Claim(CLAIM)
    assert other.acquire()
    with pytest.raises(TerminalError, match="a process still uses it"):
        kept.remove()
    assert not orphan.collect()
    assert done == []
    other.release()
    assert orphan.collect()
    kept.remove()
    assert done == ["set aside", "deleted"]
    assert list((home / "claims").iterdir()) == []


def test_a_target_cannot_be_claimed_during_its_removal() -> None:
    taken: list[bool] = []
    found = FoundTarget("box", "b-1", "stopped", lambda: taken.append(Claim(CLAIM).acquire()), claim=Claim(CLAIM))
    found.remove()
    assert taken == [False]
