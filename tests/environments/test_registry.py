from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from environments import MissingExtraError, SettingsError, backend_class, backend_names, create_environment
from environments import registry as registry_module
from environments.config import CONFIG_FILE
from environments.registry import BuiltIn

BOX = """
from environments.base import BaseEnvironment

class Box(BaseEnvironment):
    backend = "box"

Box.__abstractmethods__ = frozenset()
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    monkeypatch.delenv("TERMINAL_ENV", raising=False)
    return tmp_path


@pytest.fixture
def installed_box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A backend as another distribution would install it: a module, and one entry-point line."""
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


def test_local_is_there_from_the_start() -> None:
    assert backend_names()[0] == "local"


def test_the_registry_imports_no_backend() -> None:
    probe = "import sys, environments; print([m for m in sys.modules if m == 'environments.local'])"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(SettingsError, match=r"unknown backend 'locl' \(did you mean 'local'\?\)"):
        backend_class("locl")


def test_a_missing_client_library_names_the_extra_to_install(
    installed_box: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "needs_sdk.py").write_text("import absent_sdk.client\n")
    table = {"daytona": BuiltIn("needs_sdk", "Box", "daytona", "absent_sdk")}
    monkeypatch.setattr(registry_module, "BUILT_IN", table)
    with pytest.raises(MissingExtraError) as caught:
        backend_class("daytona")
    assert str(caught.value) == (
        "backend 'daytona' needs the absent_sdk package: pip install 'hermes-environments[daytona]'"
    )


def test_another_missing_module_is_not_mistaken_for_the_client_library(
    installed_box: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "needs_other.py").write_text("import absent_other\n")
    table = {"daytona": BuiltIn("needs_other", "Box", "daytona", "absent_sdk")}
    monkeypatch.setattr(registry_module, "BUILT_IN", table)
    with pytest.raises(ModuleNotFoundError, match="absent_other"):
        backend_class("daytona")


def test_an_installed_backend_is_found_by_its_name_and_gets_its_options(
    installed_box: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / CONFIG_FILE).write_text("terminal: {big_box_image: from-file, big_box_colour: red}\n")
    monkeypatch.setenv("TERMINAL_BIG_BOX_IMAGE", "from-variable")
    assert installed_box in backend_names()
    environment = create_environment(installed_box, size=3, timeout=4)
    assert type(environment).__name__ == "Box"
    assert environment.settings.env == installed_box
    assert environment.settings.timeout == 4
    assert environment.settings.options == {"image": "from-variable", "colour": "red", "size": 3}


def test_settings_of_an_installed_backend_do_no_harm_to_another(
    installed_box: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / CONFIG_FILE).write_text("terminal: {big_box_image: x}\n")
    monkeypatch.setenv("TERMINAL_BIG_BOX_IMAGE", "y")
    with create_environment("local") as environment:
        assert environment.settings.options == {}


def test_a_dotted_path_leads_to_a_class(installed_box: str) -> None:
    assert backend_class("box_module:Box").__name__ == "Box"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("absent_module:Box", "cannot be imported from absent_module:Box: No module named 'absent_module'"),
        ("pathlib:Absent", "cannot be imported from pathlib:Absent"),
        ("pathlib:Path", "not a subclass of BaseEnvironment"),
        ("broken", "cannot be imported from box_module:Missing"),
    ],
)
def test_a_path_that_leads_to_no_backend_is_refused(installed_box: str, name: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        backend_class(name)


def test_one_factory_builds_the_configured_environment() -> None:
    with create_environment(timeout=5) as environment:
        assert environment.backend == "local"
        assert environment.settings.timeout == 5
