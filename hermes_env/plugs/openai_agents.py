"""For openai-agents on every backend, see docs/plugs/openai_agents.md: what runs its `ShellTool`, and its sandboxes."""

from __future__ import annotations

import contextlib
import uuid
from typing import Any, Literal

from agents.sandbox.manifest import Manifest
from agents.sandbox.session import Instrumentation, SandboxSession, SandboxSessionState
from agents.sandbox.session.sandbox_client import BaseSandboxClient, BaseSandboxClientOptions
from agents.sandbox.snapshot import SnapshotBase, SnapshotSpec, resolve_snapshot
from pydantic import Field

from environments import BaseEnvironment, TerminalError, create_environment
from hermes_env.plugs.awaiting import Threads
from hermes_env.plugs.openai_session import HermesSandboxSession
from hermes_env.plugs.openai_shell import HermesShell
from hermes_env.plugs.workplaces import attaching, own_directory

__all__ = [
    "HermesSandboxClient",
    "HermesSandboxClientOptions",
    "HermesSandboxSession",
    "HermesSandboxSessionState",
    "HermesShell",
]


class HermesSandboxClientOptions(BaseSandboxClientOptions):
    """What sandboxes run in: `HermesSandboxClientOptions("docker", {"image": "python:3.12-slim"})`."""

    type: Literal["hermes"] = "hermes"
    backend: str | None = None
    """A backend's name; None is the configured one."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """Settings of `create_environment`. A session's state keeps them: let them name secrets, and not hold any."""
    exposed_ports: tuple[int, ...] = ()
    """The ports that may be asked for."""

    def open(self) -> BaseEnvironment:
        """Return a new environment."""
        return create_environment(self.backend, **self.settings)


class HermesSandboxSessionState(SandboxSessionState):
    """What a session is resumed by."""

    type: Literal["hermes"] = "hermes"
    options: HermesSandboxClientOptions
    target_id: str
    names_root: bool
    """Whether the manifest named a root. In place of the usual one, the target's own directory is taken."""


class HermesSandboxClient(BaseSandboxClient[HermesSandboxClientOptions]):
    """Makes sandboxes: `SandboxRunConfig(client=HermesSandboxClient("docker", image="python:3.12-slim"))`.

    Args:
        backend: A backend's name; None is the configured one.
        instrumentation: As for openai-agents' own clients.
        settings: Of `create_environment`. They hold where a run gives no options.
    """

    backend_id = "hermes"
    supports_default_options = True

    def __init__(
        self, backend: str | None = None, *, instrumentation: Instrumentation | None = None, **settings: object
    ) -> None:
        self._options = HermesSandboxClientOptions(backend, settings)
        self._instrumentation = instrumentation or Instrumentation()

    async def create(
        self,
        *,
        snapshot: SnapshotSpec | SnapshotBase | None = None,
        manifest: Manifest | None = None,
        options: HermesSandboxClientOptions | None = None,
    ) -> SandboxSession:
        """Start a target, and return a session in it."""
        options, manifest, id = options or self._options, manifest or Manifest(), uuid.uuid4()
        self._validate_manifest_for_create(manifest)
        state = HermesSandboxSessionState(
            session_id=id,
            snapshot=resolve_snapshot(snapshot, str(id)),
            manifest=manifest,
            exposed_ports=options.exposed_ports,
            options=options,
            target_id="",
            names_root=manifest.root != Manifest().root,
        )
        return self._session(state, await Threads().call(_started, state, options.open()))

    async def resume(self, state: SandboxSessionState) -> SandboxSession:
        """Return a session in the same target, which then stays when the session ends, or else in a new one."""
        if not isinstance(state, HermesSandboxSessionState):
            raise TypeError(f"the state is of {state.type}, and not of {self.backend_id}")
        state.assert_path_grants_rebound()
        env, is_same = await Threads().call(_joined_or_started, state)
        return self._session(state, env, is_preserved=is_same)

    def _session(
        self, state: HermesSandboxSessionState, env: BaseEnvironment, is_preserved: bool = False
    ) -> SandboxSession:
        session = HermesSandboxSession(state, env)
        session._set_start_state_preserved(is_preserved)
        return self._wrap_session(session, instrumentation=self._instrumentation)

    async def delete(self, session: SandboxSession) -> SandboxSession:
        """End a session's target."""
        await session.shutdown()
        return session

    def deserialize_session_state(self, payload: dict[str, object]) -> SandboxSessionState:
        """Return the state that was kept as JSON."""
        return self._deserialize_session_state_payload(payload, HermesSandboxSessionState)


def _started(state: HermesSandboxSessionState, env: BaseEnvironment) -> BaseEnvironment:
    """Start a new target for a state, and note where it is."""
    try:
        root = state.manifest.root if state.names_root else own_directory(env)
        env.mkdir(root)
        state.target_id, state.workspace_root_ready = env.target.id, False
        state.manifest = state.manifest.model_copy(update={"root": root})
    except BaseException:
        env.cleanup()
        raise
    return env


def _joined_or_started(state: HermesSandboxSessionState) -> tuple[BaseEnvironment, bool]:
    """Return an environment in the target that a state is of, and whether that is still there with its workspace."""
    backend = state.options.open().backend
    env = create_environment(**attaching(backend, state.target_id, state.options.settings))
    with contextlib.suppress(TerminalError):
        if env.target.id == state.target_id and env.stat(state.manifest.root).is_dir:
            return env, True
    env.cleanup()
    return _started(state, state.options.open()), False
