"""One environment for each task."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import environments
from environments import BaseEnvironment, SettingsError, TerminalError, create_environment, tasks
from environments.conformance.check import wait_until
from environments.local import LocalEnvironment
from environments.sources import load_settings
from environments.tasks import (
    cleanup_all,
    cleanup_environment,
    clear_task_settings,
    get_environment,
    register_task_settings,
)


@pytest.fixture(autouse=True, scope="module")
def _fast_reaper() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(tasks, "REAP_INTERVAL", 0.05)
        yield


@pytest.fixture(autouse=True)
def _settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    monkeypatch.setenv("TERMINAL_CWD", str(tmp_path))
    yield
    cleanup_all()
    for task in ("a", "b"):
        clear_task_settings(task)


def test_each_task_keeps_its_own_environment() -> None:
    get_environment("a").execute("export WHO=a")
    get_environment("b").execute("export WHO=b")
    assert get_environment("a") is get_environment("a")
    assert get_environment("a").execute("echo $WHO").output == "a\n"


def test_a_task_gets_a_new_environment_after_cleanup() -> None:
    first = get_environment("a")
    first.execute("true")
    cleanup_environment("a")
    cleanup_environment("a")
    with pytest.raises(TerminalError, match="cleaned up"):
        first.execute("true")
    assert get_environment("a").execute("echo new").output == "new\n"


def test_an_idle_environment_is_cleaned_up_and_a_busy_one_is_not() -> None:
    lifetime = 3  # long enough to start a process on a loaded machine
    busy = get_environment("busy", lifetime_seconds=lifetime)
    process = busy.start("read line")
    assert process.wait(lifetime + 1) is None
    idle = get_environment("idle", lifetime_seconds=0.1)
    assert wait_until(lambda: "idle" not in tasks._environments, 60)
    with pytest.raises(TerminalError, match="cleaned up"):
        idle.execute("true")
    assert process.running
    assert get_environment("busy") is busy


class RaisingEnvironment(LocalEnvironment):
    """An environment whose cleanup fails, as if its engine were gone."""

    def cleanup(self) -> None:
        super().cleanup()
        raise RuntimeError("the engine is gone")


@pytest.fixture
def raising(monkeypatch: pytest.MonkeyPatch) -> BaseEnvironment:
    with monkeypatch.context() as patched:
        patched.setattr(tasks, "create_environment", lambda task_id: RaisingEnvironment(load_settings(task_id=task_id)))
        return get_environment("raising")


def test_an_environment_that_raises_does_not_prevent_the_cleanup_of_others(
    raising: BaseEnvironment, caplog: pytest.LogCaptureFixture
) -> None:
    raising.execute("true")
    other = get_environment("other")
    other.execute("true")
    cleanup_all()
    with pytest.raises(TerminalError, match="cleaned up"):
        other.execute("true")
    assert "'raising' could not be cleaned up: RuntimeError" in caplog.text


def test_the_reaper_survives_an_environment_that_raises(
    monkeypatch: pytest.MonkeyPatch, raising: BaseEnvironment
) -> None:
    monkeypatch.setenv("TERMINAL_LIFETIME_SECONDS", "0.1")
    raising.settings = dataclasses.replace(raising.settings, lifetime_seconds=0.1)
    other = get_environment("other")
    assert wait_until(lambda: not tasks._environments, 60)
    with pytest.raises(TerminalError, match="cleaned up"):
        other.execute("true")


def test_equal_settings_of_a_task_get_the_same_environment() -> None:
    env = get_environment("own", backend="local", timeout=5)
    assert (env.settings.timeout, env.settings.task_id) == (5, "own")
    assert get_environment("own", env="local", timeout="5") is get_environment("own") is env
    assert get_environment("other").settings.timeout == 180


def test_other_settings_are_refused_while_the_environment_lives() -> None:
    env = get_environment("own", timeout=5)
    for settings, named in (
        ({"timeout": 6}, "timeout"),
        ({"lifetime_seconds": 1, "timeout": 5}, "lifetime_seconds"),
        ({"sandbox": "bubblewrap"}, "sandbox"),
        ({"backend": "docker"}, "backend"),
        ({"env": "ssh", "host": "h"}, "backend"),
        ({"approve": print}, "approve"),
    ):
        refusal = rf"'own' has another {named}; call cleanup_environment\('own'\) first"
        with pytest.raises(SettingsError, match=refusal):
            get_environment("own", **settings)
    assert get_environment("own") is env
    cleanup_environment("own")
    assert get_environment("own", timeout=6).settings.timeout == 6


def test_local_with_sandbox_and_bubblewrap_are_the_same_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_sandbox = {"sandbox": "bubblewrap", "cwd": str(tmp_path / "project")}
    env = get_environment("own", backend="local", **in_sandbox)
    assert env.settings.env == "bubblewrap"
    assert get_environment("own", backend="local", **in_sandbox) is env
    assert get_environment("own", backend="bubblewrap", cwd=str(tmp_path / "project")) is env
    for other, name in (({}, "backend"), ({**in_sandbox, "sandbox_paths": ["/srv/data"]}, "sandbox")):
        with pytest.raises(SettingsError, match=f"another {name}"):
            get_environment("own", backend="local", **other)
    monkeypatch.setenv("TERMINAL_LOCAL_SANDBOX", "bubblewrap")
    assert get_environment("own", **in_sandbox) is env


def test_wrong_settings_are_errors_and_settings_of_other_backends_are_ignored() -> None:
    get_environment("own")
    with pytest.raises(SettingsError, match="did you mean 'timeout'"):
        get_environment("own", timout=5)
    assert get_environment("own", docker_image="x") is get_environment("own")
    with pytest.raises(SettingsError, match="should be the name of a backend, and is a dict"):
        get_environment("new", env={"A": "b"})


def test_registered_settings_override_variables_and_are_overridden_by_arguments(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERMINAL_TIMEOUT", "1")
    monkeypatch.setenv("TERMINAL_LIFETIME_SECONDS", "1000")
    register_task_settings("a", timeout=2, max_output_bytes=2)
    env = get_environment("a", max_output_bytes=3)
    assert (env.settings.lifetime_seconds, env.settings.timeout, env.settings.max_output_bytes) == (1000, 2, 3)
    assert get_environment("b").settings.timeout == 1


def test_registered_settings_hold_for_new_environments_until_they_are_cleared() -> None:
    env = get_environment("a")
    register_task_settings("a", timeout=2)
    assert get_environment("a") is env
    assert env.settings.timeout == 180
    cleanup_environment("a")
    assert get_environment("a").settings.timeout == 2
    cleanup_environment("a")
    register_task_settings("a", lifetime_seconds=7)
    assert get_environment("a").settings.timeout == 180, "the later replaces the earlier"
    clear_task_settings("a")
    clear_task_settings("a")
    cleanup_environment("a")
    assert get_environment("a").settings.lifetime_seconds == 300


def test_a_registered_setting_and_an_argument_meet_under_either_name() -> None:
    register_task_settings("a", env="docker", image="registered", forward_env=["KEPT"])
    own = get_environment("a", docker_image="asked-for").settings.docker
    assert (own.image, own.forward_env) == ("asked-for", ("KEPT",))


def test_a_slow_start_of_an_environment_delays_no_other_task(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def create(task_id: str) -> BaseEnvironment:
        if task_id == "slow":
            begun.set()
            assert go_on.wait(60)
        return create_environment("local", task_id=task_id)

    monkeypatch.setattr(tasks, "create_environment", create)
    with ThreadPoolExecutor() as threads:
        slow = [threads.submit(get_environment, "slow") for _ in range(3)]
        assert begun.wait(60)
        assert get_environment("quick").execute("echo here").output == "here\n"
        go_on.set()
        assert {future.result() for future in slow} == {get_environment("slow")}, "made once"


def test_an_environment_that_could_not_be_made_is_made_by_the_next_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERMINAL_TIMEOUT", "soon")
    for _ in range(2):
        with pytest.raises(SettingsError, match="TERMINAL_TIMEOUT"):
            get_environment("a")
    monkeypatch.delenv("TERMINAL_TIMEOUT")
    assert get_environment("a").execute("echo here").output == "here\n"


def test_the_package_exports_the_functions() -> None:
    assert environments.get_environment is get_environment
    assert environments.cleanup_all is cleanup_all
    with pytest.raises(AttributeError, match="no attribute 'get_environmnet'"):
        environments.get_environmnet  # type: ignore[attr-defined]  # noqa: B018
