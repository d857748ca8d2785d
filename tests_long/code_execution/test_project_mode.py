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
def session(
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
def local_session(tmp_path: Path) -> Iterator[BaseEnvironment]:
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


def run_script(env: BaseEnvironment, code: str, **options: object) -> str:
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


def test_the_project_in_the_sessions_directory_is_imported(session: BaseEnvironment) -> None:
    write(
        session, my_project____init__="", my_project__things="def foo(): return 'ours'", lib__inside="WORD = 'in lib'"
    )
    session.execute("export PYTHONPATH=lib")
    code = "import hermes_tools\nfrom my_project.things import foo\nimport inside\nprint(foo(), inside.WORD)"
    assert run_script(session, code) == "ours in lib\n"
    session.execute("unset PYTHONPATH")
    assert execute_code("import inside", env=session).status == "error"


def test_sys_path_is_our_directory_and_then_the_path_of_python_in_the_session(session: BaseEnvironment) -> None:
    session.execute("mkdir lib && export PYTHONPATH=lib:/no/such/place:")
    said = session.execute(f"{sys.executable} -c '{PATHS}'")
    theirs = json.loads(said.output)
    assert theirs[0] == ""
    staging, *ours = json.loads(run_script(session, PATHS))
    assert ours == [session.cwd, *theirs[1:]]
    assert "/script-" in staging


def test_the_project_shadows_the_same_modules_as_for_python_in_the_session(local_session: BaseEnvironment) -> None:
    write(
        local_session,
        colorsys="WORD = 'the project has its own'",
        sitecustomize="raise SystemExit('what only PYTHONPATH would bring was imported')",
        usercustomize="raise SystemExit('what only PYTHONPATH would bring was imported')",
        encodings____init__="raise SystemExit('what only PYTHONPATH would bring was imported')",
        hermes_tools="raise SystemExit('the tools were hidden')",
        script="WORD = 'of the project'",
    )
    code = "import colorsys, script, hermes_tools; print(colorsys.WORD, script.WORD, hermes_tools.terminal.__name__)"
    assert run_script(local_session, code) == "the project has its own of the project terminal\n"


def test_a_safe_path_leaves_the_sessions_directory_out(local_session: BaseEnvironment) -> None:
    write(local_session, single="ONE = 1")
    local_session.execute("export PYTHONSAFEPATH=1")
    assert not local_session.execute(f"{sys.executable} -c 'import single'").ok
    result = execute_code("import hermes_tools\nimport single", env=local_session)
    assert "No module named 'single'" in result.output
    local_session.execute("unset PYTHONSAFEPATH")
    assert run_script(local_session, "import single") == ""


def test_a_directory_of_any_name_is_imported_from(local_session: BaseEnvironment, tmp_path: Path) -> None:
    place = tmp_path / "-a:b 'ü$HOME"
    place.mkdir()
    (place / "single.py").write_text("ONE = 1")
    assert local_session.execute('cd -- "$PLACE"', env={"PLACE": str(place)}).ok
    assert run_script(local_session, "import single, sys; print(single.ONE, sys.path[1])") == f"1 {place}\n"


def test_programs_that_a_script_starts_have_the_path_that_they_would_have(local_session: BaseEnvironment) -> None:
    write(local_session, single="ONE = 1", tools__program="import hermes_tools, sys\nimport single")
    code = """
        import subprocess, sys
        done = subprocess.run([sys.executable, "tools/program.py"], stderr=subprocess.PIPE, text=True)
        print(done.stderr.strip().splitlines()[-1])
        print(subprocess.run([sys.executable, "-c", "import single; print(single.ONE)"]).returncode)
        """
    assert run_script(local_session, code).splitlines() == ["ModuleNotFoundError: No module named 'single'", "1", "0"]


def test_a_script_in_strict_mode_has_nothing_of_the_session(session: BaseEnvironment) -> None:
    write(session, single="ONE = 1", lib__inside="")
    make_venv(session, "venv", "strict")
    session.execute("export PYTHONPATH=$PWD/lib VIRTUAL_ENV=$PWD/venv PATH=$PWD/venv/bin:$PATH")
    code = """
        import importlib.util, os, sys
        print([name for name in ("single", "inside", "installed") if importlib.util.find_spec(name)])
        print(os.environ.get("VIRTUAL_ENV", "").endswith("/venv"), "/venv/bin" in os.environ["PATH"])
        """
    assert run_script(session, code, mode="strict") == "[]\nFalse False\n"


def test_the_script_is_the_main_module_and_nothing_else_is_in_it(local_session: BaseEnvironment) -> None:
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
    shown, pickled, mapped = run_script(local_session, code, argv=["a"]).splitlines()
    assert shown.startswith("Its text. ['/") and shown.endswith(
        "/script.py', 'a'] True ['Thing', 'double', 'multiprocessing', 'pickle', 'sys']"
    )
    assert (pickled, mapped) == ("True True", "[2, 4]")


# The session's variables.


def test_programs_are_found_as_the_session_finds_them(session: BaseEnvironment) -> None:
    session.execute("mkdir bin; printf '#!/bin/sh\\necho the tool\\n' >bin/tool; chmod +x bin/tool")
    session.execute("ln -s /bin/echo bin/python; export PATH=$PWD/bin:$PATH")
    code = """
        import subprocess
        print(subprocess.run(["tool"], stdout=subprocess.PIPE, text=True).stdout, end="")
        print(subprocess.run(["python", "is echo"], stdout=subprocess.PIPE, text=True).stdout, end="")
        """
    assert run_script(session, code) == "the tool\nis echo\n"
    path = session.execute('printf %s "$PATH"').output
    assert run_script(session, "import os; print(os.environ['PATH'], end='')") == path


def test_a_script_runs_where_the_sessions_path_leads_nowhere(session: BaseEnvironment) -> None:
    session.execute("export PATH=/no/such/place")
    assert run_script(session, "import os; print(os.environ['PATH'])") == "/no/such/place\n"


def test_secrets_do_not_come_along_with_the_sessions_variables(local_session: BaseEnvironment) -> None:
    local_session.execute("export PYTHONPATH=/x MY_API_KEY=hidden CONDA_TOKEN=hidden OTHER=hidden")
    assert run_script(local_session, "import os; print('hidden' in os.environ.values())") == "False\n"


def test_the_sessions_variable_takes_precedence_over_an_allowed_one(
    local_session: BaseEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/of/this/process")
    local_session.passthrough.allow(["PYTHONPATH", "PATH"])
    local_session.execute("export PYTHONPATH=/of/the/session PATH=$PATH:/of/the/session")
    code = "import os; print([os.environ[name].split(':')[-1] for name in ('PYTHONPATH', 'PATH')])"
    assert run_script(local_session, code) == "['/of/the/session', '/of/the/session']\n"


# The Python.


def test_the_sessions_virtual_environment_is_the_scripts(local_session: BaseEnvironment) -> None:
    make_venv(local_session, "venv", "first")
    local_session.execute("old=$PATH; export VIRTUAL_ENV=$PWD/venv PATH=$PWD/venv/bin:$PATH")
    code = """
        import installed, os, subprocess, sys
        print(installed.WORD, sys.prefix == os.environ["VIRTUAL_ENV"] == os.getcwd() + "/venv")
        sys.stdout.flush()
        subprocess.run(["python", "-c", "import installed, sys; print(installed.WORD, sys.prefix)"])
        """
    assert run_script(local_session, code) == f"first True\nfirst {local_session.cwd}/venv\n"
    local_session.execute("unset VIRTUAL_ENV; PATH=$old")
    assert "No module named 'installed'" in execute_code("import installed", env=local_session).output


def test_each_script_follows_changes_of_the_sessions_python(local_session: BaseEnvironment) -> None:
    which = "import sys; print(sys.prefix.endswith('/venv'))"
    local_session.execute("export VIRTUAL_ENV=$PWD/venv")
    assert run_script(local_session, which) == "False\n"  # not made yet
    make_venv(local_session, "venv", "made")
    assert run_script(local_session, which) == "True\n"
    local_session.execute("mv venv/bin/python venv/bin/aside; printf '#!/bin/sh\\nexit 1\\n' >venv/bin/python")
    local_session.execute("chmod +x venv/bin/python")
    assert run_script(local_session, which) == "False\n"  # broken
    local_session.execute("mv venv/bin/aside venv/bin/python")
    assert run_script(local_session, which) == "True\n"  # mended
    local_session.execute("rm -rf venv")
    assert run_script(local_session, which) == "False\n"


def test_what_a_broken_python_printed_is_not_the_scripts_output(local_session: BaseEnvironment) -> None:
    local_session.execute(
        "mkdir -p bin; printf '#!/bin/sh\\necho out; echo err >&2; exit 3\\n' >bin/python; chmod +x bin/python"
    )
    local_session.execute("export VIRTUAL_ENV=$PWD")
    result = execute_code("import sys; print('mine'); sys.exit(4)", env=local_session)
    assert (result.output, result.stderr, result.exit_code) == ("mine", "", 4)


def test_tools_work_behind_a_broken_python(session: BaseEnvironment) -> None:
    session.execute("mkdir -p bin; printf '#!/bin/sh\\nexit 3\\n' >bin/python; chmod +x bin/python")
    session.execute("export VIRTUAL_ENV=$PWD")
    code = "from hermes_tools import terminal; print(terminal('echo called')['output'])"
    assert [run_script(session, code), run_script(session, code)] == ["called\n\n", "called\n\n"]


# Changes of the session by a script's tool calls.


PRINTED = {
    "VIRTUAL_ENV": "sys.prefix",
    "PYTHONPATH": "sys.path, os.environ.get('PYTHONPATH')",
    "PATH": "shutil.which('python3'), os.environ['PATH']",
}


@pytest.mark.parametrize("variable", PRINTED)
def test_a_script_does_not_choose_what_the_next_one_runs(local_session: BaseEnvironment, variable: str) -> None:
    make_venv(local_session, "evil", "evil")
    value = "$PWD/evil/bin:$PATH" if variable == "PATH" else "$PWD/evil"
    code = f"import os, shutil, sys; print(*('evil' in str(each) for each in ({PRINTED[variable]},)))"
    run_script(local_session, f"from hermes_tools import terminal; terminal('export {variable}={value}')")
    assert "evil" in local_session.execute(f"echo ${variable}").output  # commands still see the variable
    assert "True" not in run_script(local_session, code)
    local_session.execute(f"unset {variable}" if variable != "PATH" else "PATH=/usr/local/bin:/usr/bin:/bin")
    local_session.execute(f"export {variable}={value}")  # by the session itself
    assert "False" not in run_script(local_session, code)
