"""The tools as a client lists them: what each takes and returns, and what it may do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import cast

from mcp.types import Tool, ToolAnnotations

from hermes_env.mcp.results import output_schema
from hermes_env.schemas import tool_schemas


@dataclass(frozen=True, slots=True)
class _Nature:
    """What a person, or a client that asks one, has to know of a tool."""

    title: str
    reads_only: bool = False
    may_be_repeated: bool = False
    """Whether the same call again changes nothing more."""
    reaches_out: bool = False
    """Whether it deals with more than the target: with a network."""

    def annotations(self) -> ToolAnnotations:
        return ToolAnnotations(
            title=self.title,
            read_only_hint=self.reads_only,
            destructive_hint=not self.reads_only,
            idempotent_hint=self.reads_only or self.may_be_repeated,
            open_world_hint=self.reaches_out,
        )


_NATURES: Mapping[str, _Nature] = {
    "terminal": _Nature("Run a command", reaches_out=True),
    "process": _Nature("See to commands in the background"),
    "read_file": _Nature("Read a file", reads_only=True),
    "write_file": _Nature("Write a file", may_be_repeated=True),
    "search_files": _Nature("Search in files", reads_only=True),
    "patch": _Nature("Change files"),
    "web_search": _Nature("Search the web", reads_only=True, reaches_out=True),
    "web_extract": _Nature("Read web pages", reads_only=True, reaches_out=True),
    "execute_code": _Nature("Run a Python script", reaches_out=True),
}


def listed_tools(names: Iterable[str]) -> list[Tool]:
    """Return tools of ours as they are listed.

    Args:
        names: Which.

    Raises:
        SettingsError: The settings in `code_execution:`, which a description names, are not in order.
    """
    return [_listed(schema) for schema in tool_schemas("anthropic", tools=names)]


def _listed(schema: Mapping[str, object]) -> Tool:
    name = str(schema["name"])
    nature = _NATURES[name]
    return Tool(
        name=name,
        title=nature.title,
        description=str(schema["description"]),
        input_schema=cast("dict[str, object]", schema["input_schema"]),
        output_schema=output_schema(name),
        annotations=nature.annotations(),
    )
