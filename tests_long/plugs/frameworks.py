"""The frameworks that there are plugs for, with the versions that their tests are run with."""

from __future__ import annotations

from dataclasses import dataclass

PYTEST = ("pytest==9.0.3", "pytest-asyncio==1.5.0")


@dataclass(frozen=True, slots=True)
class Framework:
    """A framework, and which of its own tests are run against our plug."""

    name: str
    """That of the plug, of its extra and of its folder in `suites`."""
    package: str
    """The framework in the package index, with its version."""
    suites: tuple[tuple[str, str], ...]
    """The files of its folder that are counted, and what is in each: first of all its own tests."""
    requirements: tuple[str, ...] = ()
    """What else its tests need."""
    own: tuple[str, ...] = ()
    """Backends of its own that the same tests are run on."""
    variables: tuple[tuple[str, str], ...] = ()
    """Variables that its tests need."""
    python: str = ""
    """The program of the Python that it needs, where this one is too old."""
    too_new: tuple[str, ...] = ()
    """Requirements of its own that ask for more than an index may have. Any version of them is taken."""

    @property
    def version(self) -> str:
        """The framework with its version, as people write it."""
        return self.package.replace("==", " ")


FRAMEWORKS = (
    Framework(
        "inspect_ai",
        "inspect-ai==0.3.285",
        (("test_self_check.py", "the self-check of sandboxes that it ships"),),
        own=("local",),
    ),
    Framework(
        "deepagents",
        "deepagents==0.6.12",
        (("test_standard.py", "`SandboxIntegrationTests` of langchain-tests 1.1.9"),),
        requirements=("langchain-tests==1.1.9",),
        own=("local",),
    ),
    Framework(
        "minisweagent",
        "mini-swe-agent==2.4.6",
        (
            ("test_repository.py", "the tests of the same environments in its repository"),
            ("test_environment.py", "checks of ours, on its environments and on the plug"),
        ),
        own=("local", "docker", "singularity"),
        variables=(("MSWEA_SILENT_STARTUP", "1"),),
    ),
    Framework(
        "pydantic_ai",
        "pydantic-ai-slim==2.68.0",
        (("test_conformance.py", "`WorkspaceBackendSuite`, which it ships, on asyncio and trio"),),
        requirements=("trio==0.32.0",),
        own=("local",),
    ),
    Framework(
        "openai_agents",
        "openai-agents==0.24.0",
        (("test_sandbox.py", "checks of ours, on its sandboxes and on the plug"), ("test_shell.py", "checks of ours")),
        own=("local", "docker"),
    ),
    Framework(
        "hermes_agent",
        "hermes-agent==0.19.0",
        (("test_tools.py", "checks of ours, on its environments and on the plug"),),
        own=("local", "docker", "ssh"),
        variables=(("TERMINAL_CONTAINER_PERSISTENT", "false"),),
    ),
    Framework(
        "harbor",
        "harbor==0.25.0",
        (("test_trial.py", "a trial of its oracle"), ("test_environment.py", "checks of ours")),
        python="python3.12",
        too_new=("certifi",),
    ),
)
BY_NAME = {framework.name: framework for framework in FRAMEWORKS}
