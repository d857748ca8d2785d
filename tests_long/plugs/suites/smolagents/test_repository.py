"""The tests of smolagents' repository for executors in containers, with the plug in place of its own.

No package has these tests: `SMOLAGENTS` has to name a checkout of the installed release.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import smolagents
from place import PLACE

from environments import BaseEnvironment, create_environment
from hermes_env.plugs.smolagents import HermesExecutor

CHECKOUT = os.environ.get("SMOLAGENTS")
if not CHECKOUT:
    pytest.skip("SMOLAGENTS names no checkout", allow_module_level=True)
if PLACE.own:
    pytest.skip("its own are tested there", allow_module_level=True)
assert f'"{smolagents.__version__}"' in (Path(CHECKOUT) / "src" / "smolagents" / "__init__.py").read_text()

sys.path.insert(0, CHECKOUT)
from tests.test_remote_executors import CommonDockerExecutorIntegration  # noqa: E402

NEEDS = {"test_state_persistence": "numpy", "test_execute_image_output": "PIL"}
"""Packages in the target, for some tests."""


@pytest.fixture(scope="module")
def env() -> Iterator[BaseEnvironment]:
    with create_environment(**PLACE.settings) as env:
        yield env


class TestHermesExecutor(CommonDockerExecutorIntegration):
    @pytest.fixture
    def custom_executor(self, env: BaseEnvironment, request: pytest.FixtureRequest) -> Iterator[HermesExecutor]:
        needed = NEEDS.get(request.node.originalname)
        if needed and not env.execute_oneshot(["python3", "-c", f"import {needed}"]).ok:
            pytest.skip(f"the target has no {needed}")
        executor = HermesExecutor(env)
        yield executor
        executor.cleanup()
