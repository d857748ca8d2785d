"""LangChain's standard tests of sandboxes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from deepagents.backends import LocalShellBackend
from deepagents.backends.protocol import SandboxBackendProtocol
from langchain_tests.integration_tests import SandboxIntegrationTests
from place import PLACE

from environments import BaseEnvironment, create_environment
from hermes_env.plugs.deepagents import HermesSandbox


class TestHermesSandbox(SandboxIntegrationTests):
    @pytest.fixture(scope="class")
    def sandbox(self, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxBackendProtocol]:
        if PLACE.own:
            yield LocalShellBackend(root_dir="/", virtual_mode=False, inherit_env=True)
            return
        with create_environment(**PLACE.settings) as env:
            _provide_python(env)
            yield HermesSandbox(env)
            env.remove("/tmp/test_sandbox_ops", recursive=True, missing_ok=True)


def _provide_python(env: BaseEnvironment) -> None:
    """Provide `python` for a test: Debian has `python3` alone."""
    linked = env.execute_oneshot(
        'command -v python || { mkdir -p /usr/local/bin && ln -s "$(command -v python3)" /usr/local/bin/python; }'
    )
    assert linked.ok, linked.output
