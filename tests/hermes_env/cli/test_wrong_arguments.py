"""Wrong arguments: one line in the project's own words, and an exit code."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from targets.command_line import CommandLine

from hermes_env.cli import VERBS

USAGE, FAILED = 2, 125
WRONG = [
    ("exec --timeout abc -- true", USAGE, "--timeout abc: it should be a number of seconds above 0; inf sets no limit"),
    ("exec --timeout -1 -- true", USAGE, "--timeout -1: it should be a number of seconds above 0; inf sets no limit"),
    ("exec --timeout 0 -- true", USAGE, "--timeout 0: it should be a number of seconds above 0; inf sets no limit"),
    ("run --mode lenient s.py", USAGE, "--mode lenient: it should be one of project, strict"),
    ("exec --set container_memory=lots -- true", USAGE, "--set container_memory: it should be a whole number"),
    (
        "exec --set image= -- true",
        USAGE,
        "--set image: no such setting of backend 'local'; backends docker, singularity, modal, daytona "
        "have it: name one of them beside it, as backend",
    ),
    (
        "exec -b docker --set image= -- true",
        USAGE,
        "--set image: it is empty; give a value, or leave it out to get the default",
    ),
    (
        "exec --set imge=x -- true",
        USAGE,
        "--set imge: no such setting of backend 'local' (did you mean 'image', a setting of docker, "
        "singularity, modal, daytona?)",
    ),
    (
        "exec --set key_file=x -- true",
        USAGE,
        "--set key_file: no such setting of backend 'local' (did you mean 'key', a setting of ssh?)",
    ),
    (
        "exec -b dokcer -- true",
        USAGE,
        "--backend: unknown backend 'dokcer' (did you mean 'docker'?); allowed: local, bubblewrap, ssh, "
        "docker, singularity, modal, daytona, or a class as 'package.module:Class'",
    ),
    ("doctor --jsn", USAGE, "there is no option --jsn (did you mean '--json'?); see `hermes-env doctor --help`"),
    ("exec --stderr separate -- true", USAGE, "there is no option --stderr; see `hermes-env exec --help`"),
    ("exec --sterr x -- true", USAGE, "there is no option --sterr; see `hermes-env exec --help`"),
    (
        "batch one.jsonl --out r.jsonl --work nosuch",
        USAGE,
        "--work nosuch: give module:function, such as rollouts:work for that in rollouts.py here",
    ),
    (
        "batch one.jsonl --out r.jsonl --retry sometimes",
        USAGE,
        "--retry sometimes: there is no such status; give never, always, or some of "
        "success,error,timeout,interrupted,lost",
    ),
    ("batch nosuch.jsonl --out r.jsonl", FAILED, "cannot read the tasks in nosuch.jsonl: No such file or directory"),
    (
        "batch badjson.jsonl --out r.jsonl",
        USAGE,
        "badjson.jsonl, line 1: it is not valid JSON: Expecting value: line 2 column 1 (char 8)",
    ),
    (
        "batch comand.jsonl --out r.jsonl",
        USAGE,
        "comand.jsonl, line 1: a task has no field 'comand' (did you mean 'command'?); it may have: id, "
        "command, script, timeout, files, settings",
    ),
    (
        "batch timout.jsonl --out r.jsonl",
        USAGE,
        "timout.jsonl, line 1: a task has no field 'timout' (did you mean 'timeout'?); it may have: id, "
        "command, script, timeout, files, settings",
    ),
    (
        "batch nocommand.jsonl --out r.jsonl",
        USAGE,
        "nocommand.jsonl, line 1: task 1 has neither a command nor a script; give it one of them",
    ),
    ("batch one.jsonl --out r.jsonl --budget -1", USAGE, "--budget -1: it should be a number of seconds above 0"),
    ("rm", USAGE, "rm: give either names, or --task, or --all; see `hermes-env rm --help`"),
    ("rm -b local nosuch", FAILED, "nothing that runs or is kept is called 'nosuch'; see `hermes-env ls`"),
    ("exce -- true", USAGE, "there is no command 'exce' (did you mean 'exec'?); see `hermes-env --help`"),
    ("exec", USAGE, "CMD is missing; see `hermes-env exec --help`"),
    ("run", USAGE, "SCRIPT is missing; see `hermes-env run --help`"),
    ("cp a", USAGE, "DST is missing; see `hermes-env cp --help`"),
    ("report", USAGE, "FILE is missing; see `hermes-env report --help`"),
    ("batch", USAGE, "TASKS is missing; see `hermes-env batch --help`"),
    ("batch one.jsonl", USAGE, "--out is missing; see `hermes-env batch --help`"),
    ("completion", USAGE, "SHELL is missing; see `hermes-env completion --help`"),
    ("completion tcsh", USAGE, "SHELL tcsh: it should be one of bash, zsh, fish"),
    ("--nosuch", USAGE, "there is no option --nosuch; see `hermes-env --help`"),
    ("exec --jso -- true", USAGE, "there is no option --jso (did you mean '--json'?); see `hermes-env exec --help`"),
    ("ls extra", USAGE, "unexpected argument extra; see `hermes-env ls --help`"),
    ("gc now", USAGE, "unexpected argument now; see `hermes-env gc --help`"),
    ("cp a b c", USAGE, "unexpected argument c; see `hermes-env cp --help`"),
    ("mcp extra", USAGE, "unexpected argument extra; see `hermes-env mcp --help`"),
    (
        "shell",
        FAILED,
        "standard input is no terminal, and a shell needs one; use `hermes-env exec`, which takes a pipe or a file",
    ),
    ("exec --json=3 -- true", USAGE, "--json takes no value"),
    ("exec --timeout", USAGE, "--timeout needs a value"),
    ("exec -x -- true", USAGE, "there is no option -x; see `hermes-env exec --help`"),
    ("ls --backend", USAGE, "--backend needs a value"),
    ("run --max-tool-calls x s.py", USAGE, "--max-tool-calls x: it should be a whole number, 0 or more"),
    ("run --max-tool-calls -1 s.py", USAGE, "--max-tool-calls -1: it should be a whole number, 0 or more"),
    ("run --transport pigeon s.py", USAGE, "--transport pigeon: it should be one of auto, socket, relay, file"),
    ("run --timeout nan s.py", USAGE, "--timeout nan: it should be a number of seconds above 0; inf sets no limit"),
    ("batch one.jsonl --out r.jsonl --workers 0", USAGE, "--workers 0: it should be a whole number, 1 or more"),
    ("batch one.jsonl --out r.jsonl --workers two", USAGE, "--workers two: it should be a whole number, 1 or more"),
    ("batch one.jsonl --out r.jsonl --uses 0", USAGE, "--uses 0: it should be a whole number, 1 or more"),
    (
        "batch one.jsonl --out r.jsonl --engine thread",
        USAGE,
        "there is no engine 'thread' (did you mean 'threads'?); there are: threads, ray",
    ),
    (
        "batch one.jsonl --out r.jsonl --limit docker",
        USAGE,
        "--limit docker: it should be a name, = and a number above 0",
    ),
    (
        "batch one.jsonl --out r.jsonl --limit docker=0",
        USAGE,
        "--limit docker=0: it should be a name, = and a number above 0",
    ),
    (
        "batch one.jsonl --out r.jsonl --resource cpu",
        USAGE,
        "--resource cpu: it should be a name, = and a number above 0",
    ),
    ("mcp --idle-timeout 0", USAGE, "--idle-timeout 0: it should be a number of seconds above 0"),
    ("mcp --idle-timeout inf", USAGE, "--idle-timeout inf: it should be a number of seconds above 0"),
    (
        "mcp --tool terminl",
        USAGE,
        "--tool terminl: there is no such tool (did you mean 'terminal'?); there are: terminal, process, "
        "read_file, write_file, search_files, patch, web_search, web_extract, execute_code",
    ),
    (
        "mcp --http nowhere",
        USAGE,
        "over HTTP, clients need a token, and HERMES_MCP_TOKEN is not set. Make one by: export "
        "HERMES_MCP_TOKEN=$(python3 -c 'import secrets; print(secrets.token_urlsafe(32))')",
    ),
    ("exec --set timeout -- true", USAGE, "--set timeout: it should be KEY=VALUE, such as --set timeout=60"),
    ("exec --set =3 -- true", USAGE, "--set =: it should be KEY=VALUE, such as --set timeout=60"),
    ("exec --set timeout=soon -- true", USAGE, "--set timeout: it should be a number"),
    (
        "exec --set timout=3 -- true",
        USAGE,
        "--set timout: no such setting of backend 'local' (did you mean 'timeout'?)",
    ),
    ("exec --set timeout=3 --timeout 4 -- true", USAGE, "--set timeout: it is given twice; keep one"),
    ("exec --set cwd=/ --cwd / -- true", USAGE, "--set cwd: it is given twice; keep one"),
    ("exec --set docker_volumes=[a -- true", USAGE, "--set docker_volumes: it begins like JSON, and is not valid JSON"),
    ("exec --set backend=docker -- true", USAGE, "--set backend: use --backend instead"),
    ("exec --set env=docker -b local -- true", USAGE, "--set env: the backend is already given as 'local'; keep one"),
    (
        "ls -b nosuch",
        USAGE,
        "--backend: unknown backend 'nosuch'; allowed: local, bubblewrap, ssh, docker, singularity, "
        "modal, daytona, or a class as 'package.module:Class'",
    ),
    ("exec --set timeout=3 --set timeout=4 -- true", USAGE, "--set timeout: it is given twice; keep one"),
    ("run nosuch.py", FAILED, "cannot read the script nosuch.py: No such file or directory"),
    ("run .", FAILED, "cannot read the script .: Is a directory"),
    ("run latin.py", FAILED, "cannot read the script latin.py: not UTF-8 text at byte 7"),
    (
        "cp a b",
        USAGE,
        "cp a b: both are on this machine; write : before the path that is in the target, such as :/srv/data",
    ),
    ("cp :a :b", USAGE, "cp :a :b: both are in the target; use `hermes-env exec -- cp -R a b`"),
    ("cp nosuch :x", FAILED, "cannot read nosuch: No such file or directory"),
    ("cp :/nosuch/x y", FAILED, "cannot look at /nosuch/x on backend 'local': No such file or directory"),
    ("report nosuch.jsonl", FAILED, "cannot read nosuch.jsonl: No such file or directory"),
    (
        "report one.jsonl",
        FAILED,
        "cannot make a report of one.jsonl: there is no record in it: `hermes-env run --record FILE` writes one",
    ),
    ("report .", FAILED, "cannot read .: Is a directory"),
    (
        "exec --record /nosuch/r.jsonl -- true",
        USAGE,
        "the record /nosuch/r.jsonl cannot be written: No such file or directory; give the path of another file",
    ),
    (
        "exec --cwd /nosuch -- true",
        FAILED,
        "the working directory /nosuch cannot be entered there; create it, or set TERMINAL_CWD to one that exists",
    ),
    ("rm abc --all", USAGE, "rm: give either names, or --task, or --all; see `hermes-env rm --help`"),
    ("rm --task t --all", USAGE, "rm: give either names, or --task, or --all; see `hermes-env rm --help`"),
]
"""Command line, exit code, and the line on standard error after `hermes-env: `."""
WRONG_SETTINGS = [
    (
        "terminl: {env: docker}",
        "HERE/home/config.yaml: no such section 'terminl' (did you mean 'terminal'?); sections of other "
        "programs are left alone, but for those whose names are as near to one of ours: approvals, "
        "code_execution, security, terminal, web",
    ),
    (
        "terminal: {bakend: docker}",
        "HERE/home/config.yaml, terminal.bakend: no such setting of backend 'local' (did you mean 'backend'?)",
    ),
    (
        "terminal: {timeout: soon}",
        "HERE/home/config.yaml, terminal.timeout: it should be a number",
    ),
]
"""The settings in config.yaml, and the error of each."""
WRONG_FOR_EACH = [
    "-b ssh",
    "-b ssh --set host=-oProxyCommand=x",
    "-b ssh --set host=x --set key=nosuch",
    "-b dokcer",
    "-b nosuch:Class",
    "--set timout=3",
    "--set timeout=soon",
    "--set timeout",
    "--set lifetime_seconds=-4",
    "--set docker_volumes=[a",
    "--cwd /nosuch",
    "--record /nosuch/r.jsonl",
]
FILES = {
    "s.py": b"print(1)",
    "latin.py": b"print('\xe9')",
    "a": b"a",
    "one.jsonl": b'{"id": "1", "command": "true"}\n',
    "badjson.jsonl": b'{"id": \n',
    "comand.jsonl": b'{"id": "1", "comand": "true"}\n',
    "timout.jsonl": b'{"id": "1", "command": "true", "timout": 3}\n',
    "nocommand.jsonl": b'{"id": 1}\n',
}


@pytest.fixture(autouse=True)
def files(tmp_path: Path) -> None:
    """The files named in the command lines."""
    for name, data in FILES.items():
        (tmp_path / name).write_bytes(data)


def test_each_wrong_argument_is_one_line_with_its_exit_code(hermes_env: CommandLine) -> None:
    for line, code, said in WRONG:
        done = hermes_env(*shlex.split(line))
        assert (done.stderr, done.returncode, done.stdout) == (f"hermes-env: {said}\n", code, ""), line


def test_each_wrong_setting_is_one_line_and_nothing_runs(hermes_env: CommandLine, configure, tmp_path: Path) -> None:
    for text, said in WRONG_SETTINGS:
        configure(text)
        done = hermes_env("exec", "--", "echo", "ran")
        wanted = f"hermes-env: {said.replace('HERE', str(tmp_path))}\n"
        assert (done.stderr, done.returncode, done.stdout) == (wanted, USAGE, ""), text


def test_a_wrong_setting_is_the_same_error_for_each_command(hermes_env: CommandLine) -> None:
    for options in WRONG_FOR_EACH:
        words = shlex.split(options)
        wanted = hermes_env("exec", *words, "--", "true")
        assert wanted.returncode and wanted.stderr.startswith("hermes-env: "), options
        for verb, operands in (("run", ["s.py"]), ("cp", ["a", ":b"])):
            done = hermes_env(verb, *words, *operands)
            assert (done.stderr, done.returncode, done.stdout) == (wanted.stderr, wanted.returncode, ""), options


def test_a_wrong_argument_beside_json_is_one_object(hermes_env: CommandLine) -> None:
    for line, said in (
        (
            "exec --json --timeout abc -- true",
            "--timeout abc: it should be a number of seconds above 0; inf sets no limit",
        ),
        ("run --json --bogus s.py", "there is no option --bogus; see `hermes-env run --help`"),
    ):
        done = hermes_env(*shlex.split(line))
        assert (json.loads(done.stdout)["error"], done.stderr, done.returncode) == (said, "", USAGE), line


def test_no_command_shows_the_help_which_fits_on_a_screen(hermes_env: CommandLine) -> None:
    done = hermes_env()
    assert (done.returncode, done.stderr) == (USAGE, "")
    lines = done.stdout.splitlines()
    assert len(lines) <= 24 and max(map(len, lines)) <= 80
    assert hermes_env("--help").stdout == done.stdout


def test_the_help_of_a_command_begins_as_in_the_list_and_shows_no_types(hermes_env: CommandLine) -> None:
    for verb, summary in VERBS.items():
        shown = hermes_env(verb, "--help").stdout
        assert shown.splitlines()[2].strip().startswith(summary.rstrip(".")), verb
        assert not set("<{╭") & set(shown.replace('{"id"', "")), verb
