"""Whether a target is in use, by its owner and its claim, and the ends that it may come to."""

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
    """Return a target whose end is noted."""
    noted = [] if done is None else done
    claim = Claim(CLAIM) if kept else None
    aside = (lambda: noted.append("set aside")) if kept else None
    return FoundTarget("box", "b-1", state, lambda: noted.append("deleted"), owner=owner, claim=claim, set_aside=aside)


def test_the_owner_says_whether_what_is_not_kept_is_in_use() -> None:
    for owner, use, pid in ((HERE, "live", HERE.pid), (ENDED, "orphan", HERE.pid), (UNKNOWN, "elsewhere", None)):
        found = target("stopped", owner, kept=False)
        assert (found.use, found.pid, found.is_in_use) == (use, pid, use != "orphan")
        assert target("running", Owner.in_name(f"{owner.mark}-0123abcd-task"), kept=False).use == use
    assert target("kept", None, kept=False).use == "free"


def test_the_claim_says_whether_what_is_kept_is_in_use() -> None:
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


def test_what_is_in_use_is_removed_by_force_alone() -> None:
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


def test_what_is_taken_up_after_it_was_found_is_neither_removed_nor_collected(home: Path) -> None:
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


def test_nobody_takes_it_up_while_it_ends() -> None:
    taken: list[bool] = []
    found = FoundTarget("box", "b-1", "stopped", lambda: taken.append(Claim(CLAIM).acquire()), claim=Claim(CLAIM))
    found.remove()
    assert taken == [False]
