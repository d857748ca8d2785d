"""Count the words of the code: `python -m docs.words [ROOM...]` lists each file with sentences to rewrite.

The rules stand in CONTRIBUTING.md. With a pronoun as the subject of a sentence, the reader has to guess the subject.
"""

from __future__ import annotations

import ast
import collections
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

from docs.documents import ROOT

ROOMS = ("environments", "code_execution", "rpc", "hermes_tools", "hermes_env")
PRONOUNS = frozenset(
    [
        "what",
        "which",
        "who",
        "whom",
        "whose",
        "that",
        "one",
        "it",
        "its",
        "itself",
        "somebody",
        "nobody",
        "something",
        "nothing",
        "whatever",
        "whoever",
    ]
)
QUESTIONS = ("What", "Who", "Where", "How")
_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_DOCUMENTED = ast.Module | ast.ClassDef | _Function
_BARE = {"object", "NamedTuple", "Protocol", "Enum", "Generic", "ABC", "Exception", "StrEnum", "TypedDict"}
"""Base classes without own public methods to override."""


@dataclass
class File:
    """The docstrings of one file, counted."""

    path: Path
    tree: ast.Module
    words: int = 0
    pronouns: int = 0
    questions: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The path in the repository."""
        return self.path.relative_to(ROOT).as_posix()

    @cached_property
    def foreign(self) -> set[str]:
        """The names imported from other packages."""
        found = [it for it in ast.walk(self.tree) if isinstance(it, ast.ImportFrom) and not it.level]
        away = [it for it in found if str(it.module).split(".")[0] not in ROOMS]
        return {name.asname or name.name for it in away for name in it.names}

    @property
    def docstring(self) -> str:
        """The module's docstring."""
        return ast.get_docstring(self.tree) or ""

    def count(self) -> None:
        """Count the words and pronouns of all docstrings."""
        for node in ast.walk(self.tree):
            if isinstance(node, _DOCUMENTED) and (text := ast.get_docstring(node)):
                found = re.findall(r"[a-z']+", text.lower())
                self.words += len(found)
                self.pronouns += sum(word in PRONOUNS for word in found)
            text = _string(node)
            if text.startswith(QUESTIONS):
                self.questions.append(text.splitlines()[0])


def _string(node: ast.AST) -> str:
    """Return the text of a string statement, such as a docstring or the comment below a name."""
    is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    return node.value.value if is_text else ""


def files(*rooms: str) -> list[File]:
    """Return the Python files of some rooms or single files, counted."""
    paths = [ROOT / room for room in rooms or ROOMS]
    found = sorted(file for path in paths for file in ([path] if path.is_file() else path.rglob("*.py")))
    counted = [File(path, ast.parse(path.read_text())) for path in found]
    for file in counted:
        file.count()
    return counted


def classes(of: list[File]) -> dict[str, list[tuple[File, ast.ClassDef]]]:
    """Return all classes by name."""
    found = collections.defaultdict(list)
    for file in of:
        for node in ast.walk(file.tree):
            if isinstance(node, ast.ClassDef):
                found[node.name].append((file, node))
    return found


def doubled(of: list[File]) -> dict[str, list[str]]:
    """Return the public class names with more than one definition, with the files."""
    return {
        name: [file.name for file, _ in places]
        for name, places in classes(of).items()
        if len(places) > 1 and not name.startswith("_")
    }


def methods(of: list[File]) -> Iterator[tuple[str, _Function, list[_Function | None]]]:
    """Yield each public method of a public class with its place and its overridden methods; None for a library's."""
    known = classes(of)

    def bases(file: File, node: ast.ClassDef) -> Iterator[tuple[File, ast.ClassDef] | None]:
        for base in node.bases:
            word = base.value if isinstance(base, ast.Subscript) else base
            name = word.id if isinstance(word, ast.Name) else getattr(word, "attr", "")
            if name in _BARE:
                continue
            places = [] if name in file.foreign else known.get(name, [])
            place = next((it for it in places if it[0] is file), places[0] if places else None)
            yield place
            if place:
                yield from bases(*place)

    for name, places in known.items():
        for file, node in places:
            above = list(bases(file, node))
            for method in node.body if not name.startswith("_") else ():
                if isinstance(method, _Function) and not method.name.startswith("_"):
                    found = [it and _method(it[1], method.name) for it in above]
                    overridden = [it for it, place in zip(found, above, strict=True) if it or place is None]
                    yield f"{file.name}:{method.lineno} {name}.{method.name}", method, overridden


def _method(node: ast.ClassDef, name: str) -> _Function | None:
    return next((it for it in node.body if isinstance(it, _Function) and it.name == name), None)


def _is_variant(method: _Function) -> bool:
    """Return True for an overload and for a property's setter, documented by the method beside them."""
    return any(ast.unparse(it) == "overload" or ast.unparse(it).endswith(".setter") for it in method.decorator_list)


def documented_overrides(of: list[File]) -> list[str]:
    """Return the methods with a docstring although their base class documents them."""
    return [
        place
        for place, method, overridden in methods(of)
        if ast.get_docstring(method) and any(it and ast.get_docstring(it) for it in overridden)
    ]


def undocumented(of: list[File]) -> list[str]:
    """Return the public methods of public classes without a docstring and without an overridden method."""
    return [
        place
        for place, method, overridden in methods(of)
        if not ast.get_docstring(method) and not overridden and not _is_variant(method)
    ]


def main(*rooms: str) -> None:
    """Print the files of some rooms, those with most to do first."""
    listed = files(*rooms)
    for file in sorted(listed, key=lambda it: -(it.pronouns - 0.04 * it.words)):
        if file.pronouns > 0.04 * file.words or file.questions:
            print(
                f"{file.name:50}{file.words:6} words {1000 * file.pronouns // max(1, file.words):5} pronouns in 1,000"
            )
            print("".join(f"    {text}\n" for text in file.questions), end="")
    words, pronouns = sum(it.words for it in listed), sum(it.pronouns for it in listed)
    print(f"all: {words} words, {1000 * pronouns / max(1, words):.0f} pronouns in 1,000")
    everything = files() if rooms else listed
    names = {file.name for file in listed}
    for title, places in (("override with a docstring", documented_overrides), ("no docstring", undocumented)):
        for place in places(everything):
            if place.split(":")[0] in names:
                print(f"{title}: {place}")
    for name, places in doubled(everything).items():
        if names & set(places):
            print(f"class {name}: {', '.join(places)}")


if __name__ == "__main__":
    main(*sys.argv[1:])
