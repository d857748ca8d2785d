"""What the documents say of settings, backends and checks is what there is."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from pathlib import Path

from code_execution import CodeExecutionSettings
from environments.config import setting_names
from environments.conformance import CHECKS
from environments.settings import EnvironmentSettings

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
_SETTING = re.compile(r"^\| `(TERMINAL_[A-Z_]+|code_execution\.[a-z_]+)` \| [^|]+ \| `([^`]+)` \|", re.MULTILINE)
_LINK = re.compile(r"\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)")
_PATH = re.compile(r"`((?:examples|docs|tests|benchmarks|e2e)/[\w./-]+)`")


def documented() -> list[tuple[str, str]]:
    """The settings in docs/settings.md, each with its default."""
    return [(found[1], found[2]) for found in _SETTING.finditer((ROOT / "docs/settings.md").read_text())]


def existing() -> dict[str, str]:
    """The settings there are, each with its default as the document should write it."""
    found = {}
    for model, prefix in ((EnvironmentSettings, "TERMINAL_"), (CodeExecutionSettings, "code_execution.")):
        defaults = model()
        for field in fields(model):
            if field.name in setting_names(model):
                name = prefix + (field.name.upper() if prefix.isupper() else field.name)
                found[name] = as_written(getattr(defaults, field.name))
    return found


def as_written(default: object) -> str:
    if default is None:
        return "none"
    return f"{default:g}" if isinstance(default, float) else json.dumps(default)


def test_every_setting_is_documented_once_with_its_default() -> None:
    assert len(documented()) == len(dict(documented()))
    assert dict(documented()) == existing()


def test_the_contract_has_a_heading_for_each_line_that_is_checked() -> None:
    text = (ROOT / "docs/contract.md").read_text()
    headings = {int(number) for number in re.findall(r"^## (\d+)\. ", text, re.MULTILINE)}
    assert headings == set(range(1, 11))
    assert {check.line for check in CHECKS} == headings


def test_every_link_and_path_in_the_documents_leads_to_a_file() -> None:
    broken = []
    for document in DOCUMENTS:
        text = document.read_text()
        broken += [f"{document.name}: {link}" for link in _LINK.findall(text) if not (document.parent / link).exists()]
        broken += [f"{document.name}: {path}" for path in _PATH.findall(text) if not (ROOT / path).exists()]
    assert not broken
