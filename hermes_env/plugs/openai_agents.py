"""openai-agents on every backend: an executor for its `ShellTool`, and sandboxes. See docs/agents.md."""

from __future__ import annotations

import contextlib
import uuid
from typing import Any, Literal

from agents import ShellCallOutcome, ShellCommandOutput, ShellCommandRequest, ShellResult
from agents.sandbox import Manifest
from agents.sandbox import session as sessions
from agents.sandbox.snapshot import SnapshotBase, SnapshotSpec, resolve_snapshot
from pydantic import Field

from environments import BaseEnvironment, TerminalError
from hermes_env.aio import AsyncEnvironment
from hermes_env.plugs.openai_session import HermesSandboxSession
from hermes_env.plugs.workplaces import attaching, own_directory


class HermesShell:
    """Runs the commands of shell calls in an environment: `ShellTool(executor=HermesShell(env))`.

    The commands of one call run one after the other; several calls may come at once. Secrets and terminal controls are
    taken out of the output, as the environment's settings say.

    Args:
        env: The environment. The caller cleans it up.
        session: Whether commands run in the environment's session, and share its directory, exports and functions.
    """

    def __init__(self, env: BaseEnvironment | AsyncEnvironment, *, session: bool = False) -> None:
        self.env = env if isinstance(env, AsyncEnvironment) else AsyncEnvironment.of(env)
        self._run = self.env.execute if session else self.env.execute_oneshot

    async def __call__(self, request: ShellCommandRequest) -> ShellResult:
        """Run commands in order. None is run after one that timed out.

        Raises:
            TerminalError: The environment could not be started, or was lost.
        """
        action, outputs = request.data.action, []
        timeout = (action.timeout_ms or 0) / 1000 or None  # None is the setting
        for command in action.commands:
            result = await self._run(command, timeout=timeout, stderr="separate")
            view = self.env.sync.model_view()
            stdout, stderr = view.captured(result.captured).with_count(), view.output(result.stderr or "")
            outcome = ShellCallOutcome("timeout" if result.timed_out else "exit", result.exit_code)
            outputs.append(ShellCommandOutput(stdout, stderr, outcome, command))
            if result.timed_out:
                break
        return ShellResult(outputs, action.max_output_length)


class HermesSandboxClientOptions(sessions.BaseSandboxClientOptions):
    """The place of sandboxes: `HermesSandboxClientOptions("docker", {"image": "python:3.12-slim"})`."""

    type: Literal["hermes"] = "hermes"
    backend: str | None = None
    """A backend's name; None is the configured backend."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """Settings of `create_environment`. A session's state keeps them: let them name secrets, and not hold any."""
    exposed_ports: tuple[int, ...] = ()
    """The ports that may be asked for."""


class HermesSandboxSessionState(sessions.SandboxSessionState):
    """The state that a session is resumed by."""

    type: Literal["hermes"] = "hermes"
    options: HermesSandboxClientOptions
    target_id: str = ""
    names_root: bool = False
    """Whether the manifest named a root. In place of the default root, the target's own directory is taken."""


class HermesSandboxClient(sessions.BaseSandboxClient[HermesSandboxClientOptions]):
    """Makes sandboxes: `SandboxRunConfig(client=HermesSandboxClient("docker", image="python:3.12-slim"))`.

    Args:
        backend: A backend's name; None is the configured backend.
        instrumentation: As for openai-agents' own clients.
        settings: Settings of `create_environment`, for runs without options of their own.
    """

    backend_id = "hermes"
    supports_default_options = True

    def __init__(
        self, backend: str | None = None, *, instrumentation: sessions.Instrumentation | None = None, **settings: object
    ) -> None:
        self._options = HermesSandboxClientOptions(backend, settings)
        self._instrumentation = instrumentation or sessions.Instrumentation()

    async def create(
        self,
        *,
        snapshot: SnapshotSpec | SnapshotBase | None = None,
        manifest: Manifest | None = None,
        options: HermesSandboxClientOptions | None = None,
    ) -> sessions.SandboxSession:
        """Start a target, and return a session in it."""
        options, manifest, id = options or self._options, manifest or Manifest(), uuid.uuid4()
        self._validate_manifest_for_create(manifest)
        state = HermesSandboxSessionState(
            session_id=id,
            snapshot=resolve_snapshot(snapshot, str(id)),
            manifest=manifest,
            exposed_ports=options.exposed_ports,
            options=options,
            names_root=manifest.root != Manifest().root,
        )
        return await self._new(state)

    async def resume(self, state: sessions.SandboxSessionState) -> sessions.SandboxSession:
        """Return a session in the target of a state, which then outlives the session, or else in a new target."""
        if not isinstance(state, HermesSandboxSessionState):
            raise TypeError(f"the state is of {state.type}, and not of {self.backend_id}")
        state.assert_path_grants_rebound()
        env = AsyncEnvironment(**attaching(state.options.backend, state.target_id, state.options.settings))
        with contextlib.suppress(TerminalError):
            if (await env.target).id == state.target_id and (await env.stat(state.manifest.root)).is_dir:
                sandbox = HermesSandboxSession(state, env)
                sandbox._set_start_state_preserved(True)
                return self._wrap_session(sandbox, instrumentation=self._instrumentation)
        await env.cleanup()
        return await self._new(state)

    async def _new(self, state: HermesSandboxSessionState) -> sessions.SandboxSession:
        """Start a new target for a state, and note in the state which one it is."""
        env = AsyncEnvironment(state.options.backend, **state.options.settings)
        try:
            root = state.manifest.root if state.names_root else await own_directory(env)
            await env.mkdir(root)
            state.target_id, state.workspace_root_ready = (await env.target).id, False
        except BaseException:
            await env.cleanup()
            raise
        state.manifest = state.manifest.model_copy(update={"root": root})
        return self._wrap_session(HermesSandboxSession(state, env), instrumentation=self._instrumentation)

    async def delete(self, session: sessions.SandboxSession) -> sessions.SandboxSession:
        """End a session's target."""
        await session.shutdown()
        return session

    def deserialize_session_state(self, payload: dict[str, object]) -> sessions.SandboxSessionState:
        """Return the state that was kept as JSON."""
        return self._deserialize_session_state_payload(payload, HermesSandboxSessionState)
