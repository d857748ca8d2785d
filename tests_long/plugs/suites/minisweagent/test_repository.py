"""The tests of mini-swe-agent's repository for the environment of the same kind, with the plug in its place.

No package has these tests: `MINI_SWE_AGENT` has to name a checkout of the installed version.
"""

from __future__ import annotations

import importlib
import os
import re
from pathlib import Path
from typing import Any

import pytest
from minisweagent import __version__
from place import PLACE
from pydantic import Field

from hermes_env.plugs.minisweagent import HermesEnvironment, HermesEnvironmentConfig

CHECKOUT = os.environ.get("MINI_SWE_AGENT")
KIND = PLACE.own or PLACE.name
if not CHECKOUT:
    pytest.skip("MINI_SWE_AGENT names no checkout", allow_module_level=True)
if KIND not in ("local", "docker", "singularity"):
    pytest.skip("its repository has no tests for the like", allow_module_level=True)

FILE = Path(CHECKOUT) / "tests" / "environments" / f"test_{KIND}.py"
assert f'"{__version__}"' in (Path(CHECKOUT) / "src" / "minisweagent" / "__init__.py").read_text()


class LocalEnvironmentConfig(HermesEnvironmentConfig):
    backend: str | None = "local"


class _ContainerConfig(HermesEnvironmentConfig):
    backend: str | None = KIND
    cwd: str = "/"
    executable: str = KIND  # a setting of mini-swe-agent that the plug does not use

    @property
    def arguments(self) -> dict[str, Any]:
        return {name: value for name, value in super().arguments.items() if name in ("backend", "image")}


class DockerEnvironmentConfig(_ContainerConfig):
    pass


class SingularityEnvironmentConfig(_ContainerConfig):
    global_args: list[str] = Field(default=["--quiet"])
    exec_args: list[str] = Field(default=["--contain", "--cleanenv", "--fakeroot"])


NAME = f"{KIND.capitalize()}Environment"
CONFIG = globals()[f"{NAME}Config"]


class Environment(HermesEnvironment):
    def __init__(self, **config: object) -> None:
        super().__init__(config_class=CONFIG, **config)


if not PLACE.own:
    theirs = importlib.import_module(f"minisweagent.environments.{KIND}")
    setattr(theirs, NAME, Environment)
    setattr(theirs, f"{NAME}Config", CONFIG)
# A local image replaces the image that the tests would pull.
source = re.sub(r'"(docker://)?python:3.11(-slim)?"', repr(PLACE.settings.get("image")), FILE.read_text())
exec(compile(source, FILE, "exec"), globals())
