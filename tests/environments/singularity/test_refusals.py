"""Singularity settings that are refused before any request to the engine, and a missing engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from environments import EnvironmentStartError, SettingsError, UnsupportedError, create_environment
from environments.singularity.instance import orphans


@pytest.fixture(autouse=True)
def _no_engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))


def test_a_missing_program_is_an_error_with_the_package_to_install() -> None:
    with (
        create_environment("singularity", image="some.sif") as env,
        pytest.raises(EnvironmentStartError, match="install Apptainer"),
    ):
        env.execute("true")
    assert orphans() == []


def test_a_bind_of_another_form_is_refused() -> None:
    for bind in ("/usr", "/usr:relative", "/usr:/mnt:rx", "/usr,/etc:/mnt"):
        with (
            pytest.raises(SettingsError, match=f"binds: '{bind}'"),
            create_environment("singularity", image="some.sif", binds=[bind]) as env,
        ):
            env.execute("true")


def test_settings_of_a_new_instance_are_refused_for_an_instance_to_join() -> None:
    with pytest.raises(SettingsError, match=r"image, network are for a new target"):
        create_environment("singularity", instance="one", image="x", network=False)
    with pytest.raises(UnsupportedError, match="container_memory"):
        create_environment("singularity", instance="one", container_memory=64)
    with pytest.raises(SettingsError, match="one instance"):
        create_environment("singularity", instance="one two")
