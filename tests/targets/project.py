"""A project directory in an environment, for the scripts of examples/scripts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from code_execution import ExecutionResult, execute_code
from environments import BaseEnvironment

SCRIPTS = Path(__file__).parents[2] / "examples" / "scripts"


@dataclass(frozen=True)
class Project:
    """A directory in an environment."""

    env: BaseEnvironment
    path: str

    def put(self, files: dict[str, str | bytes]) -> None:
        self.env.execute_oneshot(f"mkdir -p {self.path}/deploy")
        for name, content in files.items():
            self.env.write_bytes(f"{self.path}/{name}", content if isinstance(content, bytes) else content.encode())

    def run(self, script: str) -> ExecutionResult:
        """Run a script of examples/scripts in the project's directory, in place of `/project`."""
        self.env.execute(f"cd {self.path}")
        code = (SCRIPTS / script).read_text().replace("/project", self.path)
        return execute_code(code, env=self.env)
