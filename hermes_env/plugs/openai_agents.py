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
from hermes_env.plugs.workspace import attach_settings, own_directory


class HermesShell:
    """Runs the commands of shell calls in an environment: `ShellTool(executor=HermesShell(env))`.

    The commands of a call run one after another. Several calls may run at once. The environment's settings remove
    secrets and terminal controls from the output.

    Args:
        env: The environment, cleaned up by the caller.
        session: True to run commands in the environment's session, with shared directory, exports and functions.
    """

    def __init__(self, env: BaseEnvironment | AsyncEnvironment, *, session: bool = False) -> None:
        self.env = env if isinstance(env, AsyncEnvironment) else AsyncEnvironment.of(env)
        self._run = self.env.execute if session else self.env.execute_oneshot

    async def __call__(self, request: ShellCommandRequest) -> ShellResult:
        """Run commands in order, until a time-out.

        Raises:
            TerminalError: The environment could not be started, or was lost.
        """
        action, outputs = request.data.action, []
        timeout = (action.timeout_ms or 0) / 1000 or None  # None is the limit of the settings
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
    """The backend of sandboxes: `HermesSandboxClientOptions("docker", {"image": "python:3.12-slim"})`."""

    type: Literal["hermes"] = "hermes"
    backend: str | None = None
    """A backend's name; None is the configured backend."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """Settings of `create_environment`. A session's state contains them, so name secrets, but do not include any."""
    exposed_ports: tuple[int, ...] = ()
    """The ports available to the agent."""


class HermesSandboxSessionState(sessions.SandboxSessionState):
    """The state for the resume of a session."""

    type: Literal["hermes"] = "hermes"
    options: HermesSandboxClientOptions
    target_id: str = ""
    names_root: bool = False
    """True if the manifest named a root. The target's own directory replaces the default root."""


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
        # In the target of the state, kept at the end of the session; or in a new target if that is lost.
        if not isinstance(state, HermesSandboxSessionState):
            raise TypeError(f"the state belongs to backend {state.type!r}, not to {self.backend_id!r}")
        state.assert_path_grants_rebound()
        env = AsyncEnvironment(**attach_settings(state.options.backend, state.target_id, state.options.settings))
        with contextlib.suppress(TerminalError):
            if (await env.target).id == state.target_id and (await env.stat(state.manifest.root)).is_dir:
                sandbox = HermesSandboxSession(state, env)
                sandbox._set_start_state_preserved(True)
                return self._wrap_session(sandbox, instrumentation=self._instrumentation)
        await env.cleanup()
        return await self._new(state)

    async def _new(self, state: HermesSandboxSessionState) -> sessions.SandboxSession:
        """Start a new target for a state, and store the target's id in the state."""
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
        await session.shutdown()
        return session

    def deserialize_session_state(self, payload: dict[str, object]) -> sessions.SandboxSessionState:
        return self._deserialize_session_state_payload(payload, HermesSandboxSessionState)
