"""Listing and removal of instances and kept files, as in `hermes-env ls` and `rm`."""

from __future__ import annotations

import os
import time

import pytest
from targets.singularity_engine import SingularityEngine

from environments import TerminalError
from environments.found_target import FoundTarget
from environments.singularity import SingularityEnvironment
from environments.singularity.client import Client
from environments.singularity.instance import records


def found() -> dict[str, FoundTarget]:
    return {target.kind: target for target in SingularityEnvironment.list_targets()}


def test_an_instance_is_found_with_its_task_and_removed_only_by_force(engine: SingularityEngine) -> None:
    with engine.make(task_id="a task: its name") as env:
        env.execute("true")
        (instance,) = found().values()
        assert (instance.kind, instance.state, instance.use) == ("instance", "running", "live")
        assert (instance.task, instance.name, instance.pid) == ("a_task__its_name", env.target.id, os.getpid())
        assert instance.created is not None and abs(time.time() - instance.created) < 600
        with pytest.raises(TerminalError, match=f"instance {instance.id} is not removed"):
            instance.remove(False)
        instance.remove(True)
        assert records(Client.find()) == []
        instance.remove(True)


def test_a_task_with_a_long_name_has_instances_too(engine: SingularityEngine) -> None:
    with engine.make(task_id="long " * 50) as env:
        assert env.execute("echo runs").output == "runs\n"
        (instance,) = found().values()
        assert instance.task == ("long_" * 50)[:60]
    assert found() == {}


def test_kept_files_are_found_by_task_and_removed_when_unused(engine: SingularityEngine) -> None:
    with engine.make(task_id="keeps: files", container_persistent=True) as env:
        env.execute("head -c 3000000 /dev/urandom >/var/file")
        kept = found()["files"]
        assert (kept.task, kept.state, kept.use) == ("keeps: files", "kept", "live")
        with pytest.raises(TerminalError, match="is not removed, as a process still uses it"):
            kept.remove(False)
    (kept,) = found().values()
    assert (kept.task, kept.use) == ("keeps: files", "free")
    assert kept.size is not None and 3_000_000 <= kept.size < 30_000_000
    assert kept.created is not None and abs(time.time() - kept.created) < 600
    kept.remove(False)
    assert found() == {}
    assert engine.files() == []
    kept.remove(False)
    with engine.make(task_id="keeps: files", container_persistent=True) as env:
        assert env.execute("ls /var/file 2>/dev/null; echo anew").output == "anew\n"


def test_kept_files_of_an_earlier_version_are_found_without_a_task(engine: SingularityEngine) -> None:
    place = engine.state / "hermes" / "singularity" / "kept" / "0123456789abcdef01234567"
    (place / "overlay").mkdir(parents=True)
    (kept,) = found().values()
    assert (kept.id, kept.task, kept.created, kept.use) == (place.name, "", None, "free")
    (place / "about.json").write_text('["not", "ours"]')
    assert found()["files"].task == ""
    kept.remove(False)
    assert not place.exists()
