"""Descriptions for a model: the use and results of each tool, and of scripts that call tools.

The docstrings of the functions describe parameters. Each text fits into OpenAI's limit.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import hermes_tools
from code_execution.settings import CodeExecutionSettings
from environments.plain_number import plain_number
from rpc.signatures import ToolSignature, documentation

OPENAI_LIMIT = 1024
"""OpenAI's limit on the characters of a function's description."""


@dataclass(frozen=True, slots=True)
class Description:
    """The text of one tool."""

    text: str
    returns: tuple[str, ...] = ()
    """Keys of the result for a script, the most useful first; empty for a tool forbidden in scripts."""
    not_in_scripts: tuple[str, ...] = ()
    """Parameters forbidden in scripts."""
    beside: Mapping[str, str] = field(default_factory=dict)
    """Sentences for a model with these other tools."""
    script_note: str = ""
    """Facts for the author of a script."""


DESCRIPTIONS: Mapping[str, Description] = {
    "terminal": Description(
        "Run a shell command in a session that keeps its working directory, exports and functions from call to "
        "call: builds, tests, git, packages, programs.\n"
        "Returns output (standard error merged in, at most 50 KB: of more, the beginning and the end), exit_code, "
        "and error: null, or why the command was ended or not run. note, if there, says what the exit code means, "
        "such as that grep found nothing.\n"
        "Commands get no input, so pass flags such as --yes and --no-pager.",
        returns=("output", "exit_code", "error"),
        not_in_scripts=("background", "pty", "notify_on_exit", "watch"),
        beside={
            "process": "Start what does not end by itself (servers, watchers), or takes long, with background=true, "
            "never with &, nohup or setsid; process then reads it, waits for it and ends it.",
            "read_file": "Read files with read_file, not cat.",
            "search_files": "Search with search_files, not grep or find.",
            "patch": "Change files with patch, not sed.",
            "write_file": "Write them with write_file, not echo or here-documents.",
        },
        script_note="terminal runs in the session, in the foreground. A command that fails has an exit_code and no "
        "error.",
    ),
    "process": Description(
        "Control commands that terminal started with background=true. An ended one is kept for 30 minutes, with the "
        "last 200 KB of its output.\n"
        "Returns status (running, exited, killed or lost), exit_code (null while it runs) and output, at most 50 KB; "
        "or error. list returns processes. notices report events in the background.",
    ),
    "read_file": Description(
        "Read lines of a text file. Use it instead of cat, head, tail and sed -n.\n"
        "Returns content (each line as its number, '|' and the text; lines over 2,000 characters are cut), "
        "total_lines, file_size, and truncated: whether lines follow; hint then says with which offset to go on. A "
        "missing or binary file gives error, with the names that are close.",
        returns=("content", "total_lines", "truncated"),
        script_note="read_file numbers its lines ('     1|text'); read_file(path, numbered=False) gives the text "
        "alone.",
    ),
    "write_file": Description(
        "Write a text file, whole: what was there is replaced. Use it for new files and complete rewrites. Missing "
        "parent directories are made; mode and line endings of an existing file are kept.\n"
        "Returns bytes_written and created, or error.",
        returns=("bytes_written", "created"),
        beside={"patch": "To change a part of a file, use patch."},
    ),
    "search_files": Description(
        "Search for text in files, or for files by name. Use it instead of grep, rg, find and ls. Hidden and "
        "ignored files are searched too; .git and binary files are not.\n"
        "Returns matches sorted by path and line (path, line and content each), total_count, and truncated: whether "
        "there are more than limit; narrow the search then, or go on with offset. engine is ripgrep or grep. A wrong "
        "pattern or path gives error.",
        returns=("matches", "total_count", "truncated"),
        script_note="Each of search_files' matches has path, line and content; with target='files' or "
        "output_mode='files_only' path alone.",
    ),
    "patch": Description(
        "Change parts of text files. Use it instead of sed. With mode=replace (the default) old_string becomes "
        "new_string in one file: old_string must be exactly what the file has, indentation included and without the "
        "line numbers of read_file, and there only once, unless replace_all. With mode=patch a V4A patch changes, "
        "adds, moves and deletes several files, all or nothing.\n"
        "Returns diff and counts. If text is missing or ambiguous: error, which names the lines, and no file is "
        "changed; read the file again before another try.",
        returns=("diff", "replacements", "files_changed"),
    ),
    "web_search": Description(
        "Search the web. Returns data.web: a list of title, url, description and position, the best first; or error.",
        returns=("data",),
        beside={"web_extract": "Read the pages that look right with web_extract."},
        script_note="web_search's data['web'] is a list of dicts with title, url, description and position.",
    ),
    "web_extract": Description(
        "Read web pages and PDFs whose addresses you know, at most 5 at once: their main text, without menus and "
        "scripts.\n"
        "Returns results: url, title, content and error for each address. Addresses of private networks are refused.",
        returns=("results",),
        script_note="web_extract's results are dicts with url, title, content and error, one for each address.",
    ),
}
"""The tools of `hermes_tools.model_tools`, in the order of the schemas."""

_USE = (
    "Run a Python script that calls tools as functions; only what it prints comes back. Use it for three or more calls "
    "with logic between them, loops, and to filter large output. Make a single call directly, and those whose results "
    "you must read in full."
)
_HELPERS = "json_parse(text), shell_quote(s), retry(fn, max_attempts=3, delay=2)"
_WHERE = {
    "project": "It runs in the session's working directory with its active Python, and can import the project.",
    "strict": "It runs in a directory of its own, so give open() absolute paths.",
}


def script_texts(
    built_in: Sequence[str],
    own: Mapping[str, Callable[..., object]],
    servers: Sequence[str],
    settings: CodeExecutionSettings,
) -> tuple[str, str]:
    """Return the descriptions of `execute_code` and of the parameter `code`.

    The list of tools is in the former, if the text then fits into OpenAI's limit, otherwise in the latter.

    Args:
        built_in: Names of the built-in tools for scripts.
        own: The program's own tools for scripts.
        servers: Names of the MCP servers for scripts.
        settings: The limits of scripts.
    """
    lines = [*map(_built_in_line, built_in), *(_own_line(name, tool) for name, tool in own.items())]
    listed = "\n".join(["from hermes_tools import ...", *lines, _HELPERS])
    printed = settings.max_stdout_bytes
    size = f"{printed // 1000} KB" if printed >= 1000 else f"{printed} bytes"
    limits = f"Limits: {plain_number(settings.timeout)} s, {settings.max_tool_calls} tool calls, {size} of output."
    code = _code_text(built_in, servers, settings)
    description = "\n\n".join([_USE, listed, limits])
    if len(description) <= OPENAI_LIMIT:
        return description, code
    short = f"Tools (see code for their arguments): {', '.join((*built_in, *own))}; helpers: {_HELPERS}"
    return "\n\n".join([_USE, short, limits]), f"{code}\n{listed}"


def _code_text(built_in: Sequence[str], servers: Sequence[str], settings: CodeExecutionSettings) -> str:
    parts = [
        "Python source, for 3.8 or later, standard library included. Print the result, and no more than you need.",
        _WHERE[settings.mode],
        "Tools return dicts. One that could not do its work returns a dict with error: check result.get('error').",
    ]
    if settings.tool_errors == "raise":
        parts.append("A call that is refused, or that breaks, raises hermes_tools.ToolError.")
    parts += filter(None, (DESCRIPTIONS[name].script_note for name in built_in))
    if servers:
        parts.append(
            f"Tools of MCP servers ({', '.join(servers)}) are functions of hermes_tools, too, called <server>_<tool>: "
            "print(dir(hermes_tools)) lists them, help(hermes_tools.NAME) explains one."
        )
    parts.append(
        "json_parse reads JSON with raw control characters in it, shell_quote makes a text one word of a command, and "
        "retry calls a function again while it raises or returns an error."
    )
    return " ".join(parts)


def _built_in_line(name: str) -> str:
    description = DESCRIPTIONS[name]
    signature = inspect.signature(getattr(hermes_tools, name))
    parameters = [
        parameter.replace(annotation=parameter.empty)
        for name, parameter in signature.parameters.items()
        if name not in description.not_in_scripts
    ]
    shown = signature.replace(parameters=parameters, return_annotation=signature.empty)
    return f"{name}{shown} -> {', '.join(description.returns)}"


def _own_line(name: str, tool: Callable[..., object]) -> str:
    summary = (documentation(tool) or "").partition("\n")[0]
    return f"{name}{ToolSignature.of(tool).shown()}" + (f": {summary}" if summary else "")
