from __future__ import annotations

import importlib
import os
import pickle
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from environments import MissingExtraError, SettingsError, TerminalError, backend_names, create_environment
from environments import registry as registry_module
from environments.inventory import collect_garbage
from environments.registry import BuiltIn, backend_class
from environments.settings import CONFIG_FILE

BOX = """
from dataclasses import dataclass
from typing import ClassVar

from environments import BackendSettings, BaseEnvironment, SettingsError
from environments.found_target import FoundTarget
from environments.owner import Owner

@dataclass(frozen=True, slots=True, kw_only=True)
class BoxSettings(BackendSettings):
    prefix: ClassVar[str] = "big_box_"

    image: str | None = None
    colour: str = "grey"
    sizes: tuple[int, ...] = ()

    def refuse(self, settings):
        if self.colour == "invisible":
            raise SettingsError("big_box_colour: it should be visible")

class Box(BaseEnvironment):
    backend = "box"
    settings_class = BoxSettings
    left_behind = ["b-1"]

    @classmethod
    def list_targets(cls):
        here = Owner.this_process()
        for box in list(cls.left_behind):
            ended = Owner(here.host, here.pid, "earlier")
            yield FoundTarget("box", box, "stopped", lambda: cls.left_behind.remove(box), owner=ended)

Box.__abstractmethods__ = frozenset()
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    monkeypatch.delenv("TERMINAL_ENV", raising=False)
    return tmp_path


@pytest.fixture
def installed_box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Install a backend as another distribution does: a module and an entry point."""
    (tmp_path / "box_module.py").write_text(BOX)
    metadata = tmp_path / "box_backend-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: box-backend\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(
        "[hermes_environments.backends]\nbig-box = box_module:Box\nbroken = box_module:Missing\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "box_module", raising=False)
    return "big-box"


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    assert backend_names()[0] == "local"
    with pytest.raises(SettingsError, match=r"unknown backend 'locl' \(did you mean 'local'\?\)"):
        backend_class("locl")


@pytest.fixture
def fake_daytona(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Replace the package of the backend daytona by a package whose class imports a given module."""

    def make(needed: str) -> None:
        folder = tmp_path / "a_wing"
        folder.mkdir(exist_ok=True)
        (folder / "__init__.py").write_text(
            "from environments.extras import lazy_export\n__getattr__ = lazy_export(__name__, 'Box', extra='daytona')\n"
        )
        (folder / "environment.py").write_text(f"import {needed}\nclass Box: pass\n")
        monkeypatch.syspath_prepend(str(tmp_path))
        monkeypatch.setattr(registry_module, "BUILT_IN", {"daytona": BuiltIn("a_wing", "Box", "BoxSettings")})
        for name in ("a_wing", "a_wing.environment"):
            monkeypatch.delitem(sys.modules, name, raising=False)

    return make


def test_a_missing_client_library_names_the_extra_to_install(fake_daytona: Callable[[str], None]) -> None:
    fake_daytona("absent_sdk.client")
    for look in (lambda: backend_class("daytona"), lambda: importlib.import_module("a_wing").Box):
        with pytest.raises(MissingExtraError) as caught:
            look()
        assert isinstance(caught.value, ImportError)
        assert str(caught.value) == (
            "backend 'daytona' needs the extra daytona (absent_sdk is not installed): "
            "pip install 'hermes-environments[daytona]', or from a checkout: pip install '.[daytona]'"
        )


def test_the_library_of_an_extra_is_named_before_those_that_it_brings(
    fake_daytona: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = ["pydantic>=2", 'absent-sdk<1,>=0.2; extra == "daytona"', "docker>=7; extra == 'docker'"]
    monkeypatch.setattr("importlib.metadata.requires", lambda name: lines)
    fake_daytona("absent_http.client")
    with pytest.raises(MissingExtraError, match=r"needs the extra daytona \(absent-sdk is not installed\)"):
        backend_class("daytona")


def test_a_module_that_shadows_a_client_library_is_named(fake_daytona: Callable[[str], None], tmp_path: Path) -> None:
    (tmp_path / "taken.py").write_text("")
    for needed in ("taken.client", "taken as client; from taken import Client"):
        sys.modules.pop("taken", None)
        fake_daytona(needed)
        with pytest.raises(MissingExtraError, match=rf"needs the taken package, but {tmp_path}/taken.py was imported"):
            backend_class("daytona")


def test_a_missing_module_of_the_backend_itself_is_no_missing_extra(fake_daytona: Callable[[str], None]) -> None:
    fake_daytona("a_wing.absent")
    with pytest.raises(ModuleNotFoundError, match=r"a_wing\.absent"):
        backend_class("daytona")


def test_an_installed_backend_is_found_by_its_name_and_has_settings_of_its_own(
    installed_box: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / CONFIG_FILE).write_text("terminal: {big_box_image: from-file, big_box_colour: red}\n")
    monkeypatch.setenv("TERMINAL_BIG_BOX_IMAGE", "from-variable")
    monkeypatch.setenv("TERMINAL_BIG_BOX_SIZES", "[1, 2]")
    assert installed_box in backend_names()
    settings = create_environment(installed_box, timeout=4).settings
    assert type(settings.own).__name__ == "BoxSettings"
    assert (settings.env, settings.timeout) == (installed_box, 4)
    assert (settings.big_box.image, settings.big_box.colour, settings.big_box.sizes) == ("from-variable", "red", (1, 2))
    assert pickle.loads(pickle.dumps(settings)) == settings


def test_wrong_settings_of_an_installed_backend_are_refused(installed_box: str) -> None:
    for given, reason in (
        (
            {"big_box_color": "red"},
            "argument big_box_color: no such setting of backend 'big-box' (did you mean 'colour'?)",
        ),
        ({"big_box_sizes": ["x"]}, "argument big_box_sizes: [0] it should be a whole number"),
        ({"colour": "invisible"}, "it should be visible"),
        ({"container_memory": 5}, "cannot enforce container_memory"),
    ):
        with pytest.raises(TerminalError, match=re.escape(reason)):
            create_environment(installed_box, **given)


def test_settings_of_an_installed_backend_do_no_harm_to_another(
    installed_box: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / CONFIG_FILE).write_text("terminal: {big_box_image: [x], big_box_typo: 1}\n")
    monkeypatch.setenv("TERMINAL_BIG_BOX_SIZES", "no json")
    with create_environment("local") as environment:
        assert not hasattr(environment.settings, "big_box")


def test_orphans_of_an_installed_backend_are_collected(installed_box: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("environments.inventory.backend_names", lambda: [installed_box])  # without requests to engines
    line = f"{installed_box}: removed box b-1, whose process {os.getpid()} has ended"
    assert line in collect_garbage()
    assert line not in collect_garbage()


def test_orphans_of_a_backend_configured_by_path_are_collected(
    installed_box: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("environments.inventory.backend_names", list)
    monkeypatch.setenv("TERMINAL_ENV", "box_module:Box")
    assert collect_garbage() == [f"box_module:Box: removed box b-1, whose process {os.getpid()} has ended"]


def test_a_dotted_path_leads_to_a_class(installed_box: str) -> None:
    assert backend_class("box_module:Box").__name__ == "Box"


def test_a_path_that_leads_to_no_backend_is_refused(installed_box: str) -> None:
    for name, reason in (
        ("absent_module:Box", "cannot be imported from absent_module:Box: No module named 'absent_module'"),
        ("pathlib:Absent", "cannot be imported from pathlib:Absent"),
        ("pathlib:Path", "not a subclass of BaseEnvironment"),
        ("broken", "cannot be imported from box_module:Missing"),
    ):
        with pytest.raises(SettingsError, match=reason):
            backend_class(name)
