"""The documents, and the examples in them.

An example is a fenced block. Each runs alone. A comment in the line above may mark the block:

- `<!-- not run: REASON -->`: the example is not run. The reason is one of `REASONS`.
- `<!-- printed -->`: the block is the output of the example above; `...` stands for any text within a line.

A shell example makes its files itself, by a here-document: `cat >report.py <<'EOF'`.
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
RINGS = ("tests", "e2e", "tests_long")
GIVEN = Path(__file__).with_name("given")
DOCUMENTS = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("e2e/*.md"), *ROOT.glob("examples/**/*.md")]
)
RUN = {"python", "sh", "yaml"}
LANGUAGES = {*RUN, "toml", "json", "text"}
"""Languages of a fence. `text` is no example, `toml` and `json` are parsed, the others are run."""
REASONS = {
    "it installs packages",
    "it takes minutes, and CI runs it as it is",
    "it changes the machine it runs on",
    "it needs a cluster",
    "it needs a framework that is tested in an environment of its own",
    "it is a file of another program's",
    "it waits for somebody who types",
    "it serves until it is stopped",
}
"""The reasons not to run an example."""
_FENCE = re.compile(
    r"(?:^ *<!-- (?P<mark>[^\n]*?) -->\n+)?^(?P<indent> *)(?P<fence>`{3,})(?P<language>[^\s`]*)[^\n]*\n"
    r"(?P<text>.*?)^ *(?P=fence) *$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Example:
    """A fenced block of a document."""

    document: str
    line: int
    language: str
    text: str
    mark: str

    @property
    def reason(self) -> str | None:
        """The reason for not running the example; None for one to run."""
        return self.mark.removeprefix("not run: ") if self.mark.startswith("not run: ") else None

    @property
    def is_output(self) -> bool:
        """True for the output of the example above."""
        return self.mark == "printed"

    @property
    def place(self) -> str:
        """The example's file and line."""
        return f"{self.document}:{self.line}"


def name_of(document: Path) -> str:
    """Return a document's path in the repository."""
    return document.relative_to(ROOT).as_posix()


def given_to(document: Path) -> Path:
    """Return the path of the file that prepares a document's examples."""
    words = document.relative_to(ROOT).with_suffix("").as_posix().replace("/", "_").replace("-", "_")
    return GIVEN / f"{words}.py"


def examples_of(document: Path) -> list[Example]:
    """Return the fenced blocks of a document, in order. A line is that of the block's first line of text."""
    text = document.read_text()
    return [
        Example(
            name_of(document),
            text.count("\n", 0, found.start("text")) + 1,
            found["language"],
            textwrap.dedent(found["text"]),
            (found["mark"] or "").strip(),
        )
        for found in _FENCE.finditer(text)
    ]


def pages() -> list[str]:
    """Return the documents with an example to run."""
    return [
        name_of(document)
        for document in DOCUMENTS
        if any(it.language in RUN and not it.reason for it in examples_of(document))
    ]
