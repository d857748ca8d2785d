"""Writes the tables of settings into the pages of docs/: `make docs` runs this file.

The tables are made from the settings classes, and from the table of hermes-agent's settings. A table follows a comment
with its name, such as `<!-- table: docker -->`, and ends at the next blank line.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING

from code_execution import CodeExecutionSettings
from code_execution.mcp.settings import McpServer
from environments import EnvironmentSettings
from environments.approvals.settings import ApprovalSettings
from environments.legacy import HERMES_AGENT_SETTINGS, HermesAgentSetting
from environments.plain_number import plain_number
from environments.registry import BUILT_IN, backend_settings_class
from environments.validation import setting_names
from hermes_tools.web.settings import WebSettings

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

HEAD = "| setting | default | meaning |\n|---|---|---|\n"
LONGEST_LIST = 5
"""The largest number of entries in a default; a longer list is shown as its number of entries."""
_TABLE = re.compile(r"(<!-- table: ([a-z_ ]+) -->\n)(?:\|.*\n)*")


def tables() -> dict[str, str]:
    """Return the tables of this package's settings, by name."""
    general = setting_names(EnvironmentSettings)
    limits = [name for name in general if name.startswith("container_")]
    found = {
        "all backends": _table(EnvironmentSettings, [name for name in general if name not in limits]),
        "limits": _table(EnvironmentSettings, limits),
        "code_execution": _table(CodeExecutionSettings),
        "mcp_server": _table(McpServer),
        "web": _table(WebSettings),
        "approvals": _table(ApprovalSettings),
    }
    return found | {backend: _table(backend_settings_class(backend)) for backend in BUILT_IN}


def older_tables() -> dict[str, str]:
    """Return the tables of hermes-agent's settings: settings with another meaning here, and ignored settings."""
    head = "| there | here | difference |\n|---|---|---|\n"
    # A setting of hermes-agent may be a setting of several backends here, with the same row.
    rows = dict.fromkeys(
        _older_row(older) for older in HERMES_AGENT_SETTINGS if older.here and (older.note or not older.is_same)
    )
    passed_over: dict[str, list[str]] = {}
    for older in HERMES_AGENT_SETTINGS:
        if not older.here:
            name = older.variable if older.written == "variable" else older.key
            passed_over.setdefault(older.section, []).append(f"`{name}`")
    lists = (f"| `{section}` | {', '.join(names)} |\n" for section, names in passed_over.items())
    return {
        "older settings": head + "".join(rows),
        "older passed over": "| section | passed over |\n|---|---|\n" + "".join(lists),
    }


def _older_row(older: HermesAgentSetting) -> str:
    there = older.variable if older.written == "variable" else older.name
    section, _, key = older.here.partition(".")
    backend = next((name for name in BUILT_IN if section == "terminal" and key.startswith(f"{name}_")), "")
    here = older.here
    if older.backend and backend:
        here = f"{section}.{key.removeprefix(f'{backend}_')}"
    note = f"{older.note[0].upper()}{older.note[1:].rstrip('.')}." if older.note else ""
    return f"| `{there}` |{'' if here == there else f' `{here}`'} |{note and ' '}{note} |\n"


def pages() -> list[Path]:
    """Return the pages with a table."""
    return [page for page in sorted(Path(__file__).parent.rglob("*.md")) if _TABLE.search(page.read_text())]


def with_tables(page: str) -> str:
    """Return the text of a page with new tables. A table of another name is unchanged."""
    made = {**tables(), **older_tables()}
    return _TABLE.sub(lambda found: found[1] + made[found[2]] if found[2] in made else found[0], page)


def _table(model: type[DataclassInstance], names: list[str] | None = None) -> str:
    meanings, defaults = _docstrings(model), model()
    return HEAD + "".join(
        f"| `{name}` |{_as_written(getattr(defaults, name))} | {meanings[name]} |\n"
        for name in names or setting_names(model)
    )


def _docstrings(model: type[DataclassInstance]) -> dict[str, str]:
    """Return the docstrings of a class's fields, each as a line."""
    (body,) = ast.parse(dedent(inspect.getsource(model))).body
    assert isinstance(body, ast.ClassDef)
    found = {}
    for field, below in zip(body.body, body.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(below, ast.Expr):
            assert isinstance(below.value, ast.Constant)
            found[field.target.id] = " ".join(str(below.value.value).split())
    return found


def _as_written(default: object) -> str:
    if default is None:
        return ""
    if isinstance(default, tuple) and len(default) > LONGEST_LIST:
        return f" {len(default)} entries"
    return f" `{plain_number(default) if isinstance(default, float) else json.dumps(default)}`"


if __name__ == "__main__":
    for page in pages():
        page.write_text(with_tables(page.read_text()))
