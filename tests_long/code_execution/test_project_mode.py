"""A script in project mode: its imports, its Python and its programs."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from targets.local_shells import local, without_bash

from code_execution import ExecutionResult, execute_code
from environments import BaseEnvironment, create_environment

PATHS = "import json, sys; print(json.dumps(sys.path))"


@pytest.fixture(params=(local, without_bash), ids=lambda make: make.__name__)
def machine(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[BaseEnvironment]:
    """A session in an empty directory, without an active Python environment, and with no shell script as Python."""
    monkeypatch.setenv("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
    work = tmp_path / "work"
    work.mkdir()
    with request.param(work) as env:
        env.execute("unset VIRTUAL_ENV CONDA_PREFIX PYTHONPATH")
        yield env


@pytest.fixture
def here(tmp_path: Path) -> Iterator[BaseEnvironment]:
    """The same on this machine."""
    with create_environment("local", cwd=str(tmp_path)) as env:
        env.execute("unset VIRTUAL_ENV CONDA_PREFIX PYTHONPATH")
        yield env


def write(env: BaseEnvironment, **files: str) -> None:
    """Write modules into the session's directory; `a__b` is a/b."""
    for name, text in files.items():
        path = f"{env.cwd}/{name.replace('__', '/')}.py"
        assert env.execute_oneshot(f"mkdir -p '{Path(path).parent}'").ok
        env.write_bytes(path, text.encode())


def ran(env: BaseEnvironment, code: str, **options: object) -> str:
    result: ExecutionResult = execute_code(textwrap.dedent(code), env=env, **options)  # type: ignore[arg-type]
    assert result.status == "success", result.output
    return result.output


def make_venv(env: BaseEnvironment, path: str, word: str) -> None:
    """Make a virtual environment with a `python` and a module `installed`, which holds a word."""
    folder = Path(env.cwd, path)
    packages = folder / "lib" / f"python3.{sys.version_info.minor}" / "site-packages"
    packages.mkdir(parents=True)
    (packages / "installed.py").write_text(f"WORD = {word!r}")
    (folder / "pyvenv.cfg").write_text(f"home = {Path(sys.executable).resolve().parent}\n")
    (folder / "bin").mkdir()
    for name in ("python", "python3"):
        (folder / "bin" / name).symlink_to(Path(sys.executable).resolve())


# Imports.


def test_the_project_in_the_sessions_directory_is_imported(machine: BaseEnvironment) -> None:
    write(
        machine, my_project____init__="", my_project__things="def foo(): return 'ours'", lib__inside="WORD = 'in lib'"
    )
    machine.execute("export PYTHONPATH=lib")
    code = "import hermes_tools\nfrom my_project.things import foo\nimport inside\nprint(foo(), inside.WORD)"
    assert ran(machine, code) == "ours in lib\n"
    machine.execute("unset PYTHONPATH")
    assert execute_code("import inside", env=machine).status == "error"


def test_sys_path_is_our_directory_and_then_the_path_of_python_in_the_session(machine: BaseEnvironment) -> None:
    machine.execute("mkdir lib && export PYTHONPATH=lib:/no/such/place:")
    said = machine.execute(f"{sys.executable} -c '{PATHS}'")
    theirs = json.loads(said.output)
    assert theirs[0] == ""
    staging, *ours = json.loads(ran(machine, PATHS))
    assert ours == [machine.cwd, *theirs[1:]]
    assert "/script-" in staging


def test_the_project_shadows_the_same_modules_as_for_python_in_the_session(here: BaseEnvironment) -> None:
    write(
        here,
        colorsys="WORD = 'the project has its own'",
        sitecustomize="raise SystemExit('what only PYTHONPATH would bring was imported')",
        usercustomize="raise SystemExit('what only PYTHONPATH would bring was imported')",
        encodings____init__="raise SystemExit('what only PYTHONPATH would bring was imported')",
        hermes_tools="raise SystemExit('the tools were hidden')",
        script="WORD = 'of the project'",
    )
    code = "import colorsys, script, hermes_tools; print(colorsys.WORD, script.WORD, hermes_tools.terminal.__name__)"
    assert ran(here, code) == "the project has its own of the project terminal\n"


def test_a_safe_path_leaves_the_sessions_directory_out(here: BaseEnvironment) -> None:
    write(here, single="ONE = 1")
    here.execute("export PYTHONSAFEPATH=1")
    assert not here.execute(f"{sys.executable} -c 'import single'").ok
    result = execute_code("import hermes_tools\nimport single", env=here)
    assert "No module named 'single'" in result.output
    here.execute("unset PYTHONSAFEPATH")
    assert ran(here, "import single") == ""


def test_a_directory_of_any_name_is_imported_from(here: BaseEnvironment, tmp_path: Path) -> None:
    place = tmp_path / "-a:b 'ü$HOME"
    place.mkdir()
    (place / "single.py").write_text("ONE = 1")
    assert here.execute('cd -- "$PLACE"', env={"PLACE": str(place)}).ok
    assert ran(here, "import single, sys; print(single.ONE, sys.path[1])") == f"1 {place}\n"


def test_programs_that_a_script_starts_have_the_path_that_they_would_have(here: BaseEnvironment) -> None:
    write(here, single="ONE = 1", tools__program="import hermes_tools, sys\nimport single")
    code = """
        import subprocess, sys
        done = subprocess.run([sys.executable, "tools/program.py"], stderr=subprocess.PIPE, text=True)
        print(done.stderr.strip().splitlines()[-1])
        print(subprocess.run([sys.executable, "-c", "import single; print(single.ONE)"]).returncode)
        """
    assert ran(here, code).splitlines() == ["ModuleNotFoundError: No module named 'single'", "1", "0"]


def test_a_script_in_strict_mode_has_nothing_of_the_session(machine: BaseEnvironment) -> None:
    write(machine, single="ONE = 1", lib__inside="")
    make_venv(machine, "venv", "strict")
    machine.execute("export PYTHONPATH=$PWD/lib VIRTUAL_ENV=$PWD/venv PATH=$PWD/venv/bin:$PATH")
    code = """
        import importlib.util, os, sys
        print([name for name in ("single", "inside", "installed") if importlib.util.find_spec(name)])
        print(os.environ.get("VIRTUAL_ENV", "").endswith("/venv"), "/venv/bin" in os.environ["PATH"])
        """
    assert ran(machine, code, mode="strict") == "[]\nFalse False\n"


def test_the_script_is_the_main_module_and_nothing_else_is_in_it(here: BaseEnvironment) -> None:
    code = '''
        """Its text."""
        import multiprocessing, pickle, sys
        class Thing: pass
        def double(x): return 2 * x
        if __name__ == "__main__":
            print(__doc__, sys.argv, __file__ == sys.argv[0], [n for n in dir() if not n.startswith("__")])
            print(type(pickle.loads(pickle.dumps(Thing()))) is Thing, sys.modules["__main__"].Thing is Thing)
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                print(pool.map(double, [1, 2]))
        '''
    shown, pickled, mapped = ran(here, code, argv=["a"]).splitlines()
    assert shown.startswith("Its text. ['/") and shown.endswith(
        "/script.py', 'a'] True ['Thing', 'double', 'multiprocessing', 'pickle', 'sys']"
    )
    assert (pickled, mapped) == ("True True", "[2, 4]")


# The session's variables.


def test_programs_are_found_as_the_session_finds_them(machine: BaseEnvironment) -> None:
    machine.execute("mkdir bin; printf '#!/bin/sh\\necho the tool\\n' >bin/tool; chmod +x bin/tool")
    machine.execute("ln -s /bin/echo bin/python; export PATH=$PWD/bin:$PATH")
    code = """
        import subprocess
        print(subprocess.run(["tool"], stdout=subprocess.PIPE, text=True).stdout, end="")
        print(subprocess.run(["python", "is echo"], stdout=subprocess.PIPE, text=True).stdout, end="")
        """
    assert ran(machine, code) == "the tool\nis echo\n"
    path = machine.execute('printf %s "$PATH"').output
    assert ran(machine, "import os; print(os.environ['PATH'], end='')") == path


def test_a_script_runs_where_the_sessions_path_leads_nowhere(machine: BaseEnvironment) -> None:
    machine.execute("export PATH=/no/such/place")
    assert ran(machine, "import os; print(os.environ['PATH'])") == "/no/such/place\n"


def test_secrets_do_not_come_along_with_the_sessions_variables(here: BaseEnvironment) -> None:
    here.execute("export PYTHONPATH=/x MY_API_KEY=hidden CONDA_TOKEN=hidden OTHER=hidden")
    assert ran(here, "import os; print('hidden' in os.environ.values())") == "False\n"


def test_the_sessions_variable_takes_precedence_over_an_allowed_one(
    here: BaseEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/of/this/process")
    here.passthrough.allow(["PYTHONPATH", "PATH"])
    here.execute("export PYTHONPATH=/of/the/session PATH=$PATH:/of/the/session")
    code = "import os; print([os.environ[name].split(':')[-1] for name in ('PYTHONPATH', 'PATH')])"
    assert ran(here, code) == "['/of/the/session', '/of/the/session']\n"


# The Python.


def test_the_sessions_virtual_environment_is_the_scripts(here: BaseEnvironment) -> None:
    make_venv(here, "venv", "first")
    here.execute("old=$PATH; export VIRTUAL_ENV=$PWD/venv PATH=$PWD/venv/bin:$PATH")
    code = """
        import installed, os, subprocess, sys
        print(installed.WORD, sys.prefix == os.environ["VIRTUAL_ENV"] == os.getcwd() + "/venv")
        sys.stdout.flush()
        subprocess.run(["python", "-c", "import installed, sys; print(installed.WORD, sys.prefix)"])
        """
    assert ran(here, code) == f"first True\nfirst {here.cwd}/venv\n"
    here.execute("unset VIRTUAL_ENV; PATH=$old")
    assert "No module named 'installed'" in execute_code("import installed", env=here).output


def test_each_script_follows_changes_of_the_sessions_python(here: BaseEnvironment) -> None:
    which = "import sys; print(sys.prefix.endswith('/venv'))"
    here.execute("export VIRTUAL_ENV=$PWD/venv")
    assert ran(here, which) == "False\n"  # not made yet
    make_venv(here, "venv", "made")
    assert ran(here, which) == "True\n"
    here.execute("mv venv/bin/python venv/bin/aside; printf '#!/bin/sh\\nexit 1\\n' >venv/bin/python")
    here.execute("chmod +x venv/bin/python")
    assert ran(here, which) == "False\n"  # broken
    here.execute("mv venv/bin/aside venv/bin/python")
    assert ran(here, which) == "True\n"  # mended
    here.execute("rm -rf venv")
    assert ran(here, which) == "False\n"


def test_what_a_broken_python_printed_is_not_the_scripts_output(here: BaseEnvironment) -> None:
    here.execute(
        "mkdir -p bin; printf '#!/bin/sh\\necho out; echo err >&2; exit 3\\n' >bin/python; chmod +x bin/python"
    )
    here.execute("export VIRTUAL_ENV=$PWD")
    result = execute_code("import sys; print('mine'); sys.exit(4)", env=here)
    assert (result.output, result.stderr, result.exit_code) == ("mine", "", 4)


def test_tools_work_behind_a_broken_python(machine: BaseEnvironment) -> None:
    machine.execute("mkdir -p bin; printf '#!/bin/sh\\nexit 3\\n' >bin/python; chmod +x bin/python")
    machine.execute("export VIRTUAL_ENV=$PWD")
    code = "from hermes_tools import terminal; print(terminal('echo called')['output'])"
    assert [ran(machine, code), ran(machine, code)] == ["called\n\n", "called\n\n"]


# Changes of the session by a script's tool calls.


SHOWN = {
    "VIRTUAL_ENV": "sys.prefix",
    "PYTHONPATH": "sys.path, os.environ.get('PYTHONPATH')",
    "PATH": "shutil.which('python3'), os.environ['PATH']",
}


@pytest.mark.parametrize("variable", SHOWN)
def test_a_script_does_not_choose_what_the_next_one_runs(here: BaseEnvironment, variable: str) -> None:
    make_venv(here, "evil", "evil")
    value = "$PWD/evil/bin:$PATH" if variable == "PATH" else "$PWD/evil"
    code = f"import os, shutil, sys; print(*('evil' in str(each) for each in ({SHOWN[variable]},)))"
    ran(here, f"from hermes_tools import terminal; terminal('export {variable}={value}')")
    assert "evil" in here.execute(f"echo ${variable}").output  # commands still see the variable
    assert "True" not in ran(here, code)
    here.execute(f"unset {variable}" if variable != "PATH" else "PATH=/usr/local/bin:/usr/bin:/bin")
    here.execute(f"export {variable}={value}")  # by the session itself
    assert "False" not in ran(here, code)
