"""The tables of docs/settings.md and docs/moving-from-hermes-agent.md: `make docs` writes them anew.

They are made from the classes that hold the settings, and from the table of the older system's.

A table stands below a comment that names it, such as `<!-- table: docker -->`, and ends at the next blank line.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
from dataclasses import fields
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING

from code_execution import CodeExecutionSettings
from code_execution.mcp.settings import McpServer
from environments import EnvironmentSettings
from environments.approvals.settings import ApprovalSettings
from environments.legacy import OLDER, Older
from environments.plain_number import plain_number
from environments.registry import BUILT_IN, backend_settings_class
from environments.validation import setting_names
from hermes_tools.web.settings import WebSettings

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

DOCUMENT = Path(__file__).with_name("settings.md")
MOVING = Path(__file__).with_name("moving-from-hermes-agent.md")
HEAD = "| setting | variable | type | default | what it does |\n|---|---|---|---|---|\n"
SECTION_HEAD = "| key | type | default | what it does |\n|---|---|---|---|\n"
KINDS = {
    "Network": "`full`, `none` or a list",
    "bool": "true/false",
    "tuple": "list",
    "Mapping": "mapping",
    "Verdict": "`allow`, `ask` or `deny`",
    "SecretStr": "secret",
    "float": "number",
    "int": "number",
    "Mode": "text",
    "Kind": "text",
    "Literal": "text",
    "ProviderName": "text",
    "ToolErrors": "text",
    "str": "text",
}
"""What to call a type, by a word in how it is written. The first that fits is taken."""
_TABLE = re.compile(r"(<!-- table: ([a-z_ ]+) -->\n)(?:\|.*\n)*")


def tables() -> dict[str, str]:
    """Return every table by its name."""
    general = setting_names(EnvironmentSettings)
    limits = [name for name in general if name.startswith("container_")]
    found = {
        "all backends": _table(EnvironmentSettings, [name for name in general if name not in limits]),
        "limits": _table(EnvironmentSettings, limits),
        "code_execution": _table(
            CodeExecutionSettings, setting_names(CodeExecutionSettings), section="code_execution."
        ),
        "mcp_server": _table(McpServer, setting_names(McpServer), section="mcp_servers.NAME."),
        "web": _table(WebSettings, setting_names(WebSettings), section="web."),
        "approvals": _table(ApprovalSettings, setting_names(ApprovalSettings), section="approvals."),
    }
    for backend in BUILT_IN:
        own = backend_settings_class(backend)
        if names := setting_names(own):
            found[backend] = _table(own, names, prefix=own.prefix)
    return found


def older_tables() -> dict[str, str]:
    """Return every table of the older system's settings by its name, which is that of their section."""
    head = "| there | here | |\n|---|---|---|\n"
    sections = dict.fromkeys(older.section for older in OLDER)
    return {
        f"older {section}": head
        + "".join(dict.fromkeys(_older_row(older) for older in OLDER if older.section == section))
        for section in sections
    }


def _older_row(older: Older) -> str:
    there = [f"`{older.name}`"] if older.written != "variable" else []
    there += [f"`{older.variable}`"] if older.variable else []
    if not older.here:
        return f"| {', '.join(there)} | | Passed over: {older.note}. |\n"
    note = older.note or ("Same." if older.is_same else "Same, under another name.")
    section, _, key = older.here.partition(".")
    backend = next((name for name in BUILT_IN if section == "terminal" and key.startswith(f"{name}_")), "")
    of = "the backend in use" if older.backend else f"`{backend}`"
    here = f"`{key.removeprefix(f'{backend}_')}` of {of}" if backend else f"`{older.here}`"
    return f"| {', '.join(there)} | {here} | {note[0].upper()}{note[1:].rstrip('.')}. |\n"


def written(document: str) -> str:
    """Return a document with its tables as they should be.

    Raises:
        KeyError: It asks for a table that there is not.
    """
    made = {**tables(), **older_tables()}
    return _TABLE.sub(lambda found: found[1] + made[found[2]], document)


def _table(model: type[DataclassInstance], names: list[str], *, prefix: str = "", section: str = "") -> str:
    said, defaults = _docstrings(model), model()
    kinds = {field.name: _kind(str(field.type)) for field in fields(model) if field.name in names}
    rows = []
    for name in names:
        shown = f"{section}{name}`" if section else f"{name}` | `TERMINAL_{prefix.upper()}{name.upper()}`"
        default = _as_written(getattr(defaults, name))
        rows.append(f"| `{shown} | {kinds[name]} | `{default}` | {said[name]} |\n")
    return (SECTION_HEAD if section else HEAD) + "".join(rows)


def _docstrings(model: type[DataclassInstance]) -> dict[str, str]:
    """Return what stands below each field of a class, on one line."""
    (body,) = ast.parse(dedent(inspect.getsource(model))).body
    assert isinstance(body, ast.ClassDef)
    found = {}
    for field, below in zip(body.body, body.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(below, ast.Expr):
            assert isinstance(below.value, ast.Constant)
            found[field.target.id] = " ".join(str(below.value.value).split())
    return found


def _kind(annotation: str) -> str:
    return next(kind for word, kind in KINDS.items() if word.lower() in annotation.lower())


def _as_written(default: object) -> str:
    if default is None:
        return "none"
    return plain_number(default) if isinstance(default, float) else json.dumps(default)


if __name__ == "__main__":
    for document in (DOCUMENT, MOVING):
        document.write_text(written(document.read_text()))
