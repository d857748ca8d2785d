"""What a forked script imports is what any other would: the modules that are ready show in nothing but its time."""

from __future__ import annotations

from targets.ready_python import is_forked, server_of

from code_execution import execute_code
from environments import BaseEnvironment

AS_EVER = {
    "loaded again": ("import importlib, json; json.dumps = None; importlib.reload(json); print(json.dumps(1))", "1"),
    "imported again": (
        "import json, sys; json.dumps = None; del sys.modules['json']; import json; print(json.dumps(1))",
        "1",
    ),
    "patched before": ("import sys; sys.modules['enum'] = None\ntry: import re\nexcept ImportError: print(1)", "1"),
    "its source": (
        "from importlib.util import find_spec; print('def' in find_spec('json').loader.get_source('json'))",
        "True",
    ),
    "its files": ("import pkgutil; print(b'def' in pkgutil.get_data('json', 'decoder.py'))", "True"),
    "run as a program": ("import runpy; print('split' in runpy.run_module('shlex'))", "True"),
    "what it imports": ("import socket, sys; print({'selectors', 'enum'} <= set(sys.modules))", "True"),
    "what it does not": ("import shlex, sys; print({'json', 'socket'} & set(sys.modules))", "set()"),
    "its thread": ("import os, threading; print(threading.main_thread().native_id == os.getpid())", "True"),
    "made by hand": (
        "import importlib.util as u; m = u.module_from_spec(u.find_spec('json')); print('json' in m.__file__)",
        "True",
    ),
}


def test_an_import_does_what_it_does_in_any_script(env: BaseEnvironment) -> None:
    cold = {name: execute_code(code, env=env).output for name, (code, _) in AS_EVER.items()}
    server_of(env)
    assert is_forked(env)
    warm = {name: execute_code(code, env=env).output for name, (code, _) in AS_EVER.items()}
    assert warm == {name: expected + "\n" for name, (_, expected) in AS_EVER.items()}
    assert cold == warm


def test_a_file_of_the_project_stands_before_what_a_ready_module_has_imported(env: BaseEnvironment) -> None:
    env.execute("echo >enum.py")
    server_of(env)
    assert is_forked(env)
    result = execute_code("import json", env=env)
    assert (result.status, "enum" in result.stderr) == ("error", True)
