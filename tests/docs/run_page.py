"""Run the examples of a document: `python -m docs.run_page docs/commands.md`.

Its examples run in order and share names, the working directory and variables, as for a reader who tries one after the
other; those of `ALONE` share no names. What a page takes for granted, such as a host, is made by the file of its name
in `given/`, which may add to `replaced` (words of the examples that mean something else here) and put what is to be
closed on `stack`.
"""

from __future__ import annotations

import contextlib
import io
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
from docs.documents import ROOT, Example, examples_of, given_to
from environments import cleanup_all, load_settings
from environments.factory import load_approval_settings
from hermes_tools.web.settings import load_web_settings

REPLACED = {"python:3.12-slim": PYTHON_IMAGE, "gcc:14": PYTHON_IMAGE, "timeout=10)": "timeout=100)"}
"""What stands for what: the tests' image for others, as a registry cannot be counted on; and we are in no hurry."""


ALONE = ("docs/async.md",)
"""The documents whose examples share no names: each runs when it is copied alone."""


class Page:
    """One document's examples, and what they have in common."""

    def __init__(self, document: Path, stack: contextlib.ExitStack) -> None:
        self.examples = examples_of(document)
        self.names: dict[str, object] = {"__name__": "__main__", "stack": stack, "replaced": dict(REPLACED)}
        given = given_to(document)
        if given.exists():
            exec(compile(given.read_text(), str(given), "exec"), self.names)

    def run(self) -> None:
        """Run all that is to be run, and compare what that prints where the document says it."""
        said = ""
        for example in self.examples:
            if example.is_output:
                assert _fits(example.text, said), f"{example.place}: it prints\n{said}"
            elif example.reason is None and example.language in {"python", "sh", "yaml"}:
                try:
                    said = self._run(example)
                except Exception:
                    print(f"in the example at {example.place}", file=sys.stderr)
                    raise

    def _run(self, example: Example) -> str:
        text = example.text
        for word, other in self.names["replaced"].items():  # type: ignore[attr-defined]
            text = text.replace(word, other)
        if example.file:
            Path(example.file).parent.mkdir(parents=True, exist_ok=True)
            Path(example.file).write_text(text)
            return ""
        if example.language == "yaml":
            _read_settings(text)
            return ""
        if example.language == "sh":
            return _run_in_shell(text)
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            names = dict(self.names) if example.document in ALONE else self.names
            exec(compile("\n" * (example.line - 1) + text, str(ROOT / example.document), "exec"), names)
        return said.getvalue()


def _run_in_shell(text: str) -> str:
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", text], capture_output=True, text=True, check=False)
    if done.returncode:
        raise AssertionError(f"exit code {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout


def _read_settings(text: str) -> None:
    """Have all that reads config.yaml read this one."""
    sections = yaml.safe_load(text)
    unknown = sections.keys() - {"terminal", "code_execution", "approvals", "web"}
    assert not unknown, f"no section of config.yaml is called {unknown}: say which file it is in its first line"
    with tempfile.TemporaryDirectory() as home, pytest.MonkeyPatch.context() as patch:
        patch.setenv("HERMES_HOME", home)
        Path(home, "config.yaml").write_text(text)
        for load in (load_settings, load_code_execution_settings, load_approval_settings, load_web_settings):
            load()


def _fits(pattern: str, said: str) -> bool:
    expected = ".*".join(re.escape(part) for part in pattern.strip().split("..."))
    return re.fullmatch(expected, said.strip()) is not None


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
    """Run a document's examples in a directory of their own, with settings of their own."""
    with contextlib.ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (home / "work").mkdir()
        (home / "config.yaml").write_text(_settings())
        os.environ |= {"HERMES_HOME": str(home), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        stack.enter_context(contextlib.chdir(home / "work"))
        stack.callback(cleanup_all)
        Page(ROOT / document, stack).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
