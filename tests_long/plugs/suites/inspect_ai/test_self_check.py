"""The self-check of inspect_ai for sandboxes."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import AsyncIterator

import pytest_asyncio
from inspect_ai.util import SandboxEnvironment
from inspect_ai.util._sandbox.registry import registry_find_sandboxenv
from inspect_ai.util._sandbox.self_check import *  # noqa: F403
from place import PLACE

from hermes_env.plugs.inspect_ai import HermesSandboxConfig


@pytest_asyncio.fixture(scope="module")
async def sandbox_of_all() -> AsyncIterator[SandboxEnvironment]:
    kind = registry_find_sandboxenv(PLACE.own or "hermes")
    config = None if PLACE.own else HermesSandboxConfig(**PLACE.settings)
    started = await kind.sample_init("self-check", config, {})
    yield started["default"]
    await kind.sample_cleanup("self-check", config, started, False)
    if os.geteuid() == 0 and shutil.which("userdel"):  # impossible while a shell of that user is still waiting
        subprocess.run(["userdel", "-r", "inspect-ai-test-exec-as-user"], capture_output=True, check=False)


@pytest_asyncio.fixture
async def sandbox_env(sandbox_of_all: SandboxEnvironment) -> SandboxEnvironment:
    return sandbox_of_all
