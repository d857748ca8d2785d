"""Owners of targets, their claims, and an engine that cannot list leftover targets."""

from __future__ import annotations

import signal
import subprocess
import sys

from environments.claim import Claim
from environments.inventory import collect_garbage
from environments.owner import Owner


def test_an_engine_that_is_not_there_is_only_a_warning(monkeypatch, tmp_path, caplog):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no.sock")
    assert not [line for line in collect_garbage() if line.startswith("docker:")]
    assert "no.sock" in caplog.text


def test_an_owner_is_gone_when_its_process_has_ended_or_its_id_is_anothers():
    me = Owner.this_process()
    assert Owner.parse(str(me)) == me
    assert not me.is_gone
    assert Owner(me.host, me.pid, "earlier").is_gone
    assert not Owner("another", me.pid, "earlier").is_gone
    child = subprocess.Popen(["sleep", "1000"])
    theirs = Owner(me.host, child.pid, me.started)
    child.kill()
    child.wait()
    assert theirs.is_gone
    assert Owner.parse("something else entirely") is None


def test_a_claim_belongs_to_one_process_until_that_ends(tmp_path, monkeypatch):
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    claim, other = Claim("thing"), Claim("thing")
    assert not other.is_held and not (tmp_path / "claims").exists(), "to look makes nothing"
    code = (
        "import time; from environments.claim import Claim\nprint(Claim('thing').acquire(), flush=True); time.sleep(99)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline() == b"True\n"
        assert not claim.acquire() and other.is_held
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        assert not other.is_held, "its file is still there"
        assert claim.acquire() and other.is_held
        assert claim.acquire(), "what one has one may take again"
    claim.release()
    assert not list((tmp_path / "claims").iterdir())
