"""Containers and snapshots as an engine lists them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from environments.docker import listing
from environments.docker.image import SNAPSHOT

IMAGE = "sha256:" + "5b" * 32


@pytest.mark.parametrize("tags", [["<none>:<none>"], [], None])
def test_a_snapshot_without_a_tag_has_no_name_and_is_removed_by_its_id(monkeypatch, tags) -> None:
    removed: list[str] = []
    monkeypatch.setattr(listing, "_remove_snapshot", lambda settings, snapshot: removed.append(snapshot))
    about = {"Id": IMAGE, "RepoTags": tags, "Labels": {SNAPSHOT: "build"}, "Size": 7, "Created": 1000}
    found = listing._snapshot(SimpleNamespace(), None, "", about)
    found.remove()
    assert (found.name, found.task, removed) == ("", "build", [IMAGE])
