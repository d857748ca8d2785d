"""The conformance suite of pydantic-ai for workspaces."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from place import PLACE
from pydantic_ai.workspaces import LocalWorkspaceBackend, WorkspaceBackend, WorkspaceRef
from pydantic_ai.workspaces.conformance import WorkspaceBackendSuite

from hermes_env.plugs.pydantic_ai import HermesWorkspace

Destroy = Callable[[WorkspaceBackend], Awaitable[None]]


class Workspaces:
    """Makes workspaces, and closes all at the end."""

    def __init__(self, factory: pytest.TempPathFactory) -> None:
        self._factory = factory
        self.made: list[HermesWorkspace] = []

    def new(self) -> WorkspaceBackend:
        if PLACE.own:
            return LocalWorkspaceBackend(self._factory.mktemp("workspace"))
        self.made.append(HermesWorkspace(**PLACE.settings))
        return self.made[-1]

    def attached(self, ref: WorkspaceRef) -> WorkspaceBackend:
        if PLACE.own:
            return LocalWorkspaceBackend(ref.id)
        self.made.append(HermesWorkspace(ref=ref, **PLACE.settings))
        return self.made[-1]

    async def destroy(self, workspace: WorkspaceBackend) -> None:
        if PLACE.own:
            shutil.rmtree(await workspace.working_dir())
        else:
            await workspace.close()


@pytest.fixture(scope="module")
async def made(anyio_backend: object, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Workspaces]:
    made = Workspaces(tmp_path_factory)
    yield made
    for workspace in made.made:
        await workspace.close()


@pytest.fixture(scope="module")
def shared(made: Workspaces) -> WorkspaceBackend:
    return made.new()


class TestHermesWorkspace(WorkspaceBackendSuite):
    @pytest.fixture
    def backend(self, shared: WorkspaceBackend) -> WorkspaceBackend:
        return shared

    @pytest.fixture
    def fresh_backend(self, made: Workspaces) -> Callable[[], WorkspaceBackend] | None:
        return None if PLACE.own else made.new  # pydantic-ai's own workspace has a ref from the beginning

    @pytest.fixture
    def destructive_backend(self, made: Workspaces) -> Callable[[], WorkspaceBackend]:
        return made.new

    @pytest.fixture
    def attach_backend(self, made: Workspaces) -> Callable[[WorkspaceRef], WorkspaceBackend]:
        return made.attached

    @pytest.fixture
    def destroy_environment(self, made: Workspaces) -> Destroy:
        return made.destroy
