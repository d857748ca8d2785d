"""The work of a batch's actor on its node, and the actor's placement, without a cluster."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from ray import cloudpickle
from targets.processes import all_gone

from environments import BaseEnvironment, MissingExtraError, SettingsError, load_settings
from hermes_env.batch import Plan, Task
from hermes_env.batch.engine import Work, make_engine
from hermes_env.batch.ray.actor import BatchActor
from hermes_env.batch.ray.cluster import placement
from hermes_env.batch.ray.setup import EnvironmentSpec, Setup, setup_of
from hermes_env.batch.task_types import TaskTypes

NODES = [{"CPU": 2.0, "memory": 8e9, "node:1": 1.0}, {"CPU": 4.0, "memory": 8e9, "fast": 1.0}]


@pytest.fixture
def setup(configure) -> Setup:
    configure("")
    return setup_of(Plan(1, "local"), TaskTypes("local").base)


@pytest.fixture
def actor(setup: Setup) -> Iterator[BatchActor]:
    made = BatchActor(setup)
    yield made
    made.close()


def changed(setup: Setup, **fields: object) -> Setup:
    names = ("version", "sections", "spec", "work", "timeout", "uses")
    return Setup(**{**{name: getattr(setup, name) for name in names}, **fields})  # type: ignore[arg-type]


def test_a_task_runs_in_a_fresh_environment_each_time(actor: BatchActor) -> None:
    shells = set()
    for name in ("1", "2"):
        task = Task(name, command="echo $$; export LEFT=1; echo [$LEFT_BEFORE]")
        assert actor.prepare(task, None) is None
        result = actor.run(task)
        assert result.status == "success"
        shells.add(result.output)
    assert len(shells) == 2


def test_a_tasks_own_settings_make_its_environment(actor: BatchActor, tmp_path: Path) -> None:
    task = Task("1", command="pwd; echo $TOKEN_OF_DRIVER")
    settings = load_settings("local", cwd=str(tmp_path), env_passthrough=["TOKEN_OF_DRIVER"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TOKEN_OF_DRIVER", "of the node")
        assert actor.prepare(task, EnvironmentSpec(settings, {"TOKEN_OF_DRIVER": "of the driver"})) is None
        assert actor.run(task).output == f"{tmp_path}\nof the driver\n"


def test_a_task_whose_environment_does_not_start_has_not_begun(actor: BatchActor, tmp_path: Path) -> None:
    own = EnvironmentSpec(load_settings("local", cwd=str(tmp_path / "missing")))
    result = actor.prepare(Task("1", command="true"), own)
    assert result and (result.status, result.began) == ("error", False)
    assert "missing" in (result.error or "")


def test_nothing_begins_behind_an_interrupt(actor: BatchActor, nap: str) -> None:
    task = Task("1", command=f"sleep {nap}")
    assert actor.prepare(task, None) is None
    actor.interrupt()
    result = actor.run(task)
    assert (result.status, result.began) == ("interrupted", False)
    later = actor.prepare(task, None)
    assert later and (later.status, later.began) == ("interrupted", False)
    assert all_gone(nap)


def test_a_task_that_may_not_begin_leaves_its_environment_for_the_next(actor: BatchActor) -> None:
    first, second = Task("1", command="echo first"), Task("2", command="echo second")
    assert actor.prepare(first, None) is None
    assert (actor.withdraw(first).status, actor.withdraw(first).began) == ("interrupted", False)
    assert actor.prepare(second, None) is None
    assert actor.run(second).output == "second\n"


def test_code_of_a_module_that_no_node_has_is_sent_along(
    setup: Setup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "module_of_a_user.py").write_text(
        "WORD = 'sent'\ndef work(env, task):\n    return WORD + env.execute('echo along').output\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    import module_of_a_user  # type: ignore[import-not-found]

    work: Work = module_of_a_user.work
    sent = setup_of(Plan(1, "local", work), TaskTypes("local").base)
    monkeypatch.delitem(sys.modules, "module_of_a_user")
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place != str(tmp_path)])
    actor = BatchActor(sent)
    assert actor.ready() == ""
    task = Task("1")
    assert actor.prepare(task, None) is None
    assert actor.run(task).output == "sentalong\n"
    actor.close()


def test_work_that_cannot_be_sent_is_refused(configure) -> None:
    configure("")
    lock = threading.Lock()

    def work(env: BaseEnvironment, task: Task) -> None:
        lock.acquire()

    with pytest.raises(SettingsError, match="the work cannot be sent to another machine"):
        setup_of(Plan(1, "local", work), TaskTypes("local").base)


def test_a_node_with_another_version_says_so(setup: Setup) -> None:
    assert "install the same on all nodes" in BatchActor(changed(setup, version="0.0.1")).ready()


def test_a_node_with_other_rules_says_so(setup: Setup, configure) -> None:
    configure("approvals:\n  mode: ask\n")
    assert "the section approvals of config.yaml on " in BatchActor(setup).ready()


def test_a_node_that_lacks_what_the_work_imports_says_so(setup: Setup) -> None:
    work = cloudpickle.dumps(Task).replace(b"hermes_env.batch.task", b"hermes_env.batch.tusk")
    assert "cannot work on tasks: ModuleNotFoundError" in BatchActor(changed(setup, work=work)).ready()


def test_an_environment_takes_little_and_is_spread_over_the_nodes() -> None:
    assert placement({}, NODES) == {"num_cpus": 0.01, "resources": {}, "scheduling_strategy": "SPREAD"}
    asked = {"num_cpus": 1, "memory": 10**9, "fast": 0.5, "scheduling_strategy": "DEFAULT"}
    assert placement(asked, NODES) == {
        "num_cpus": 1,
        "memory": 10**9,
        "resources": {"fast": 0.5},
        "scheduling_strategy": "DEFAULT",
    }


@pytest.mark.parametrize(
    ("resources", "told"),
    [
        ({"num_cpus": 3, "fast": 2}, "no node of the Ray cluster has CPU 3, fast 2"),
        ({"num_cpu": 1}, "no node of the Ray cluster has 'num_cpu' (did you mean 'num_cpus'?)"),
        ({"num_gpus": 1}, "no node of the Ray cluster has 'num_gpus'; start such a node"),
        ({"fast": -1}, "resources: fast is -1; it should be a number"),
        ({"scheduling_strategy": "spread"}, "scheduling_strategy is 'spread'; allowed: SPREAD, DEFAULT"),
    ],
)
def test_resources_that_cannot_be_had_are_refused(resources: dict[str, float | str], told: str) -> None:
    with pytest.raises(SettingsError) as caught:
        placement(resources, NODES)
    assert told in str(caught.value)


def test_the_extra_is_named_where_ray_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match="a batch with the engine ray needs the extra ray"):
        make_engine("ray", Plan(1, "local"))
