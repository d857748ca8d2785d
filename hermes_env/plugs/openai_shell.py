"""What runs the shell calls of openai-agents, on every backend, see docs/plugs/openai_agents.md."""

from __future__ import annotations

from agents import ShellCallOutcome, ShellCommandOutput, ShellCommandRequest, ShellResult

from environments import BaseEnvironment, CommandResult
from hermes_env.plugs.awaiting import Threads
from hermes_tools.model_output import captured, with_notice


class HermesShell:
    """Runs the commands of shell calls in an environment: `ShellTool(executor=HermesShell(env))`.

    The commands of one call run one after the other; several calls may come at once. Of what they print, secrets and
    terminal controls are taken out, as the environment's settings say.

    Args:
        env: The environment. It stays the caller's, who cleans it up.
        session: Whether commands run in the environment's session, and share its directory, exports and functions.
    """

    def __init__(self, env: BaseEnvironment, *, session: bool = False) -> None:
        self.env = env
        self._run = env.execute if session else env.execute_oneshot
        self._threads = Threads()

    async def __call__(self, request: ShellCommandRequest) -> ShellResult:
        """Run commands, until one takes too long.

        Raises:
            TerminalError: The environment could not be started, or was lost.
        """
        action, outputs = request.data.action, []
        timeout = (action.timeout_ms or 0) / 1000 or None  # without one it is as the settings say
        for command in action.commands:
            result = await self._threads.call(self._run, command, timeout=timeout, stderr="separate")
            outputs.append(self._output(command, result))
            if result.timed_out:
                break
        return ShellResult(outputs, action.max_output_length)

    def _output(self, command: str, result: CommandResult) -> ShellCommandOutput:
        view = self.env.model_view()
        stdout, stderr = with_notice(view.captured(captured(result))), view.output(result.stderr or "")
        outcome = ShellCallOutcome("timeout" if result.timed_out else "exit", result.exit_code)
        return ShellCommandOutput(stdout, stderr, outcome, command)
