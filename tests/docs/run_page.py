"""Run the examples of a document: `python -m docs.run_page docs/commands.md`.

Each example runs alone, like a block copied into an empty file or shell: a new process, in an empty working directory,
with the tests' images set in `HERMES_HOME`. A `<!-- printed -->` block is compared with the output of the example
above. The file of the document's name in `given/` runs once before the examples. The file may start servers for the
page, replace words of the examples (`replaced`), set variables in `os.environ`, and push cleanups on `stack`. It gives
no names and no files to the examples.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import yaml
from targets.engines import PYTHON_IMAGE, STATE

from code_execution.settings import load_code_execution_settings
from docs.documents import ROOT, RUN, Example, examples_of, given_to
from environments import cleanup_all, load_settings
from environments.factory import load_approval_settings
from hermes_tools.web.settings import load_web_settings

REPLACED = {"python:3.12-slim": PYTHON_IMAGE, "gcc:14": PYTHON_IMAGE, "timeout=10)": "timeout=100)"}
"""Replaced words: the tests' image, as a registry cannot be counted on, and a time-out for a busy machine."""


class Page:
    """The examples of one document."""

    def __init__(self, document: Path, stack: contextlib.ExitStack) -> None:
        self.examples = examples_of(document)
        self.replaced = dict(REPLACED)
        given = given_to(document)
        if given.exists():
            stack.enter_context(contextlib.chdir(stack.enter_context(tempfile.TemporaryDirectory())))
            names = {"__name__": "__main__", "stack": stack, "replaced": self.replaced}
            exec(compile(given.read_text(), str(given), "exec"), names)

    def run(self) -> None:
        """Run the examples in order, and compare their output with the page's.

        Raises:
            AssertionError: An example failed or printed something else. The message has its place.
        """
        output = None
        for example in self.examples:
            if example.is_output:
                assert output is not None, f"{example.place}: no example that is run stands above it"
                assert _fits(example.text, output), f"{example.place}: the example prints\n{output}"
            elif example.language in RUN:
                output = self._run(example) if example.reason is None else None

    def _run(self, example: Example) -> str:
        text = example.text
        for word, other in self.replaced.items():
            text = text.replace(word, other)
        if example.language == "yaml":
            _read_settings(text)
            return ""
        with tempfile.TemporaryDirectory() as folder:
            work = Path(folder, "work")
            work.mkdir()
            Path(folder, "config.yaml").write_text(_settings())
            if example.language == "sh":
                command = ["bash", "-euo", "pipefail", "-c", text]
            else:
                file = Path(folder, "example.py")
                file.write_text("\n" * (example.line - 1) + text)
                command = [sys.executable, str(file)]
            env = {**os.environ, "HERMES_HOME": folder}
            env.pop("PYTHONPATH", None)  # the tests' modules are no reader's
            done = subprocess.run(command, cwd=work, env=env, capture_output=True, text=True, check=False)
        assert not done.returncode, f"{example.place}: exit code {done.returncode}: {done.stdout}{done.stderr}"
        return done.stdout


def _read_settings(text: str) -> None:
    """Load a config.yaml with every reader of it."""
    sections = yaml.safe_load(text)
    unknown = sections.keys() - {"terminal", "code_execution", "approvals", "web"}
    assert not unknown, f"no section of config.yaml is called {unknown}; another file's example is marked `not run`"
    with tempfile.TemporaryDirectory() as home, pytest.MonkeyPatch.context() as patch:
        patch.setenv("HERMES_HOME", home)
        Path(home, "config.yaml").write_text(text)
        for load in (load_settings, load_code_execution_settings, load_approval_settings, load_web_settings):
            load()


def _fits(pattern: str, output: str) -> bool:
    pattern, output = (re.sub(r"(?<=\S)  +", "  ", text.strip()) for text in (pattern, output))  # a table's columns
    expected = ".*".join(re.escape(part) for part in pattern.split("..."))
    return re.fullmatch(expected, output) is not None


def _settings() -> str:
    images = {"docker_image": PYTHON_IMAGE, "singularity_image": str(STATE / "e2e-python.sandbox")}
    return yaml.safe_dump({"terminal": images})


def run_page(page: str, folder: Path) -> None:
    """Run a document's examples as a user who has set nothing, with temporary files in a folder."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("TERMINAL_", "HERMES_"))}
    env |= {"PYTHONPATH": str(ROOT / "tests"), "TMPDIR": str(folder)}
    command = [sys.executable, "-m", "docs.run_page", page]
    done = subprocess.run(command, cwd=ROOT / "tests", env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def main(document: str) -> None:
    """Run a document's examples with the programs of this Python's environment."""
    with contextlib.ExitStack() as stack:
        stack.callback(cleanup_all)
        os.environ |= {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        os.environ["HERMES_HOME"] = stack.enter_context(tempfile.TemporaryDirectory())
        Page(ROOT / document, stack).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
