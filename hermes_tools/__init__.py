"""The built-in tools: shell commands and files in an environment, and the web from this machine.

The functions here work on the configured environment: a script with calls of them runs unchanged with `execute_code`
and as a plain Python program. For an environment of your own, take the function of the same name from its module:
`from hermes_tools.files.read_file import read_file` has the environment as its first parameter.

The results of these functions, and of those in `model_tools`, are for a model and hold no values of secrets. A script
run by `execute_code` gets results unchanged, as it may have to write them back.
"""

from __future__ import annotations

from collections.abc import Callable

from environments.base import BaseEnvironment
from hermes_tools.background.notices import on_notice, take_notices
from hermes_tools.background.process import background_process
from hermes_tools.binding import bound_to, for_model, on_configured_environment
from hermes_tools.files.read_file import read_file as _read_file
from hermes_tools.files.write_file import write_file as _write_file
from hermes_tools.patch.patch import patch as _patch
from hermes_tools.process import process as _process
from hermes_tools.search.search_files import search_files as _search_files
from hermes_tools.terminal import script_terminal
from hermes_tools.terminal import terminal as _terminal
from hermes_tools.web.web_extract import web_extract as _web_extract
from hermes_tools.web.web_search import web_search as _web_search

terminal = on_configured_environment(_terminal)
process = on_configured_environment(_process)
read_file = on_configured_environment(_read_file)
write_file = on_configured_environment(_write_file)
search_files = on_configured_environment(_search_files)
patch = on_configured_environment(_patch)
web_search = on_configured_environment(_web_search)
web_extract = on_configured_environment(_web_extract)

__all__ = [
    "background_process",
    "model_tools",
    "on_notice",
    "patch",
    "process",
    "read_file",
    "script_tools",
    "search_files",
    "take_notices",
    "terminal",
    "web_extract",
    "web_search",
    "write_file",
]


def model_tools(env: BaseEnvironment) -> dict[str, Callable[..., object]]:
    """Return the tools a model may call, by name, working on `env`, without the values of secrets in their results."""
    return {
        "terminal": for_model(env, _terminal),
        "process": for_model(env, _process),
        "read_file": for_model(env, _read_file),
        "write_file": for_model(env, _write_file),
        "search_files": for_model(env, _search_files),
        "patch": for_model(env, _patch),
        "web_search": for_model(env, _web_search),
        "web_extract": for_model(env, _web_extract),
    }


def script_tools(env: BaseEnvironment) -> dict[str, Callable[..., object]]:
    """Return the tools a script may call by default, by name, working on `env`.

    `terminal` runs commands in the foreground only: background and pty are refused, and there is no `process`.
    """
    return {
        "terminal": bound_to(env, script_terminal),
        "read_file": bound_to(env, _read_file),
        "write_file": bound_to(env, _write_file),
        "search_files": bound_to(env, _search_files),
        "patch": bound_to(env, _patch),
        "web_search": bound_to(env, _web_search),
        "web_extract": bound_to(env, _web_extract),
    }
