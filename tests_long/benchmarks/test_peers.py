"""The pipe between the driver and a peer, and peers that cannot be installed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.measure import UnavailableError
from benchmarks.peers import installation
from benchmarks.peers.installation import folder_with
from benchmarks.peers.peer import HERMES_AGENT, SWE_REX, Package, Peer, opened_peers, timers_of

ANSWERING = Package("a peer 1.0", "tests_long.benchmarks.answering_peer", ())


@pytest.fixture
def peer(tmp_path: Path) -> Iterator[Peer]:
    made = Peer(Path(sys.executable), ANSWERING, tmp_path)
    yield made
    made.close()


def test_a_peer_reports_its_kinds_of_work_and_their_seconds(peer: Peer) -> None:
    assert "work" in peer.works and "tool_calls" not in peer.works
    seconds, value = peer.ask("work", {"value": 7})
    assert value == 7 and 0 <= seconds < 60
    assert len(peer.timer("work")()) == 1
    assert set(timers_of({"a": peer}, "work")) == {"a"}
    assert timers_of({"a": peer}, "tool_calls") == {}


def test_an_error_in_a_peer_is_reported_and_the_peer_goes_on(peer: Peer) -> None:
    with pytest.raises(UnavailableError, match="fail: ValueError: so it is"):
        peer.ask("fail")
    assert peer.ask("work")[1] == 1


def test_a_peer_that_takes_too_long_is_ended(peer: Peer) -> None:
    with pytest.raises(UnavailableError, match="hang: not done within 0 s"):
        peer.ask("hang", longest=0.2)
    with pytest.raises(UnavailableError, match="work: its process has ended"):
        peer.ask("work")


def test_a_peer_that_cannot_be_installed_is_reported_as_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(installation, "KEPT", tmp_path / "kept")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with opened_peers({HERMES_AGENT: {"place": "local"}}) as (ready, missing):
        assert ready == {}
    assert missing.keys() == {"hermes-agent 0.19.0"}
    assert missing["hermes-agent 0.19.0"].startswith("it could not be installed: ")
    assert "hermes-agent" in missing["hermes-agent 0.19.0"]
    with pytest.raises(UnavailableError, match="it could not be installed"):
        folder_with("server", SWE_REX.requirements, "3.11")
