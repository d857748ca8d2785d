"""The frameworks with a plug, and the releases under test: the newest and the oldest."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
PYTEST = ("pytest", "pytest-asyncio")
"""The test runner. Any release will do."""

Release = Literal["newest", "oldest"]
"""A release of a framework: pip's newest for the extra, or the extra's lower bound."""
RELEASES: tuple[Release, ...] = get_args(Release)


@dataclass(frozen=True, slots=True)
class Framework:
    """A framework, and its own tests for our plug."""

    name: str
    """The name of the plug, of its extra and of its folder in `suites`."""
    suites: tuple[tuple[str, str], ...]
    """The counted files of its folder, each with its content. The framework's own tests come first."""
    requirements: tuple[str, ...] = ()
    """Further packages for its tests."""
    oldest_with: tuple[str, ...] = ()
    """Requirements beside the oldest release, where pip would choose a broken dependency."""
    own: tuple[str, ...] = ()
    """Its own backends, under the same tests, with the newest release."""
    variables: tuple[tuple[str, str], ...] = ()
    """Variables for its tests."""
    python: str = ""
    """The required version of Python, where this Python is too old."""

    @property
    def requirement(self) -> Requirement:
        """The requirement of its extra."""
        *_, text = EXTRAS[self.name]
        found = Requirement(text)
        found.marker = None
        return found

    @property
    def package(self) -> str:
        """Its name in the package index."""
        return self.requirement.name

    @property
    def lower_bound(self) -> str:
        """The lower bound of its extra."""
        (bound,) = (each.version for each in self.requirement.specifier if each.operator == ">=")
        return bound


FRAMEWORKS = (
    Framework(
        "inspect_ai",
        (("test_self_check.py", "its self-check of sandboxes"),),
        own=("local",),
    ),
    Framework(
        "deepagents",
        (("test_standard.py", "`SandboxIntegrationTests` of langchain-tests"),),
        requirements=("langchain-tests",),
        own=("local",),
    ),
    Framework(
        "minisweagent",
        (
            ("test_repository.py", "its repository's tests of environments"),
            ("test_environment.py", "our checks of environments"),
        ),
        own=("local", "docker", "singularity"),
        variables=(("MSWEA_SILENT_STARTUP", "1"),),
    ),
    Framework(
        "pydantic_ai",
        (("test_conformance.py", "its `WorkspaceBackendSuite`, on asyncio and trio"),),
        requirements=("trio",),
        own=("local",),
    ),
    Framework(
        "openai_agents",
        (("test_sandbox.py", "our checks of sandboxes"), ("test_shell.py", "our checks of the shell tool")),
        own=("local", "docker"),
    ),
    Framework(
        "hermes_agent",
        (("test_tools.py", "our checks of environments"),),
        own=("local", "docker", "ssh"),
        variables=(("TERMINAL_CONTAINER_PERSISTENT", "false"),),
    ),
    Framework(
        "smolagents",
        (
            ("test_executor.py", "our checks of executors"),
            ("test_repository.py", "its repository's tests of executors"),
        ),
        requirements=("numpy",),
        own=("local",),
    ),
    Framework(
        "harbor",
        (("test_trial.py", "a trial of its oracle"), ("test_environment.py", "our checks of environments")),
        python="3.12",
    ),
)
BY_NAME = {framework.name: framework for framework in FRAMEWORKS}
