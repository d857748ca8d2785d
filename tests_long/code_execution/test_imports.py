"""A script imports the same modules as `python3 script.py`: no module of the boot program is visible."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from targets.backends import docker, local

from code_execution import execute_code
from environments import BaseEnvironment

IMPORTS = {
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
    "itself run as a program": (
        "import runpy, sys\n"
        "if __name__ == '__main__': print(runpy.run_path(sys.argv[0], run_name='other')['sys'] is sys)",
        "True",
    ),
    "what it imports": ("import socket, sys; print({'selectors', 'enum'} <= set(sys.modules))", "True"),
    "what it does not": ("import sys; print({'json', 'socket', 'threading', 're'} & set(sys.modules))", "set()"),
    "what its tools do not": (
        "import sys, hermes_tools; print({'json', 'socket', 'threading', 're'} & set(sys.modules))",
        "set()",
    ),
    "its thread": ("import os, threading; print(threading.main_thread().native_id == os.getpid())", "True"),
    "made by hand": (
        "import importlib.util as u; m = u.module_from_spec(u.find_spec('json')); print('json' in m.__file__)",
        "True",
    ),
    "its source of an error": ("import inspect, sys; print(inspect.getsource(sys.modules['__main__'])[:6])", "import"),
    "its classes pickled": ("import pickle\nclass A: pass\nprint(type(pickle.loads(pickle.dumps(A()))) is A)", "True"),
    "its processes": (
        "import multiprocessing as m\ndef f(x): return x + 1\n"
        "if __name__ == '__main__':\n  for way in ('fork', 'spawn', 'forkserver'):\n"
        "    with m.get_context(way).Pool(1) as pool: print(pool.map(f, [1]), end='')",
        "[2][2][2]",
    ),
}


@pytest.fixture(scope="module", params=[local, docker], ids=["local", "docker"])
def target(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BaseEnvironment]:
    work: Path = tmp_path_factory.mktemp("work")
    with request.param(work) as subject, subject.make() as env:
        yield env


@pytest.mark.parametrize("transport", ["auto", "file"])
def test_imports_behave_as_in_any_script(target: BaseEnvironment, transport: str) -> None:
    seen = {name: execute_code(code, env=target, transport=transport) for name, (code, _) in IMPORTS.items()}  # type: ignore[arg-type]
    said = {name: result.output.removesuffix("\n") for name, result in seen.items()}
    assert said == {name: expected for name, (_, expected) in IMPORTS.items()}


PRINT_STARTUP = "import sys, sitecustomize; print(2, sys.WORD, sitecustomize.__file__.rpartition('/')[0])"


def test_sitecustomize_and_pth_files_run_before_a_script(target: BaseEnvironment) -> None:
    """The boot program's file has the name of such a file on this machine."""
    target.execute("python3 -m venv --without-pip venv && export VIRTUAL_ENV=$PWD/venv")
    target.execute("site=$(echo venv/lib/python3*/site-packages); echo 'print(1)' >$site/sitecustomize.py")
    target.execute("mkdir -p later; echo 'import sys; sys.WORD = 3' >$site/word.pth")
    target.write_bytes(f"{target.cwd}/begins.py", PRINT_STARTUP.encode())
    expected = target.execute("venv/bin/python begins.py").output
    assert "2 3 /" in expected
    for transport in ("auto", "file"):
        assert execute_code(PRINT_STARTUP, env=target, transport=transport).output == expected  # type: ignore[arg-type]
    target.execute("echo WORD=4 >later/added.py; echo $PWD/later >$site/added.pth")
    assert execute_code("import added; print(added.WORD)", env=target).output.endswith("4\n")
    target.execute("unset VIRTUAL_ENV")


def test_a_wrapper_around_python_runs_the_script(target: BaseEnvironment) -> None:
    target.execute("mkdir -p tool/bin && export CONDA_PREFIX=$PWD/tool")
    wrapper = '#!/bin/sh\\nexport WHERE="$PWD"\\nexec python3 "$@"\\n'
    target.execute(f"printf '{wrapper}' >tool/bin/python && chmod +x tool/bin/python")
    code = "import os; print(os.environ['WHERE'] == os.getcwd())"
    assert [execute_code(code, env=target).output for _ in range(2)] == ["True\n"] * 2
    target.execute("unset CONDA_PREFIX")


INSPECT_TOOL = """
import sys, hermes_tools, inspect
source = inspect.getsource(hermes_tools.note)
file = hermes_tools.note.__wrapped__.__code__.co_filename == hermes_tools.__file__ == hermes_tools.__spec__.origin
print(file, source, hermes_tools.note("x"), inspect.signature(hermes_tools.note), hermes_tools.note.__doc__)
"""


def test_tools_that_were_compiled_before_are_like_others(target: BaseEnvironment) -> None:
    def note(text: str) -> list[str]:
        """Return it."""
        return [text]

    def run_with_note(code: str) -> str:
        result = execute_code(code, env=target, tools={"note": note})
        assert result.status == "success", result
        return result.output

    compiled = run_with_note(INSPECT_TOOL)
    assert compiled.endswith("['x'] (text: 'str') -> 'list[str]' Return it.\n")
    by_another_name = INSPECT_TOOL.replace("hermes_tools", "tools").replace("import sys, tools,", "import sys,")
    load = "import importlib\ntools = importlib.import_module('hermes_' + 'tools')\n"
    assert run_with_note(load + by_another_name) == compiled


def test_many_scripts_at_once_are_not_mixed_up(target: BaseEnvironment) -> None:
    def run(number: int) -> str:
        transport = ("auto", "relay", "file")[number % 3]
        code = f"from hermes_tools import same; print({number}, same({number}))"
        return execute_code(code, env=target, tools={"same": lambda x: x}, transport=transport).output  # type: ignore[arg-type]

    with ThreadPoolExecutor(20) as pool:
        assert list(pool.map(run, range(40))) == [f"{number} {number}\n" for number in range(40)]
