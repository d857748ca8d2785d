from __future__ import annotations

import json
import signal
from pathlib import Path

from targets.command_line import SLEEP, CommandLine, Script, Start
from targets.processes import all_gone


def test_control_c_ends_the_script_with_130_and_leaves_nothing(
    start_hermes_env: Start, script: Script, nap: str
) -> None:
    process = start_hermes_env("run", script(SLEEP.format(nap)))
    assert process.stdout and process.stdout.readline() == b"begun\n"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors.startswith(b"interrupted in ")
    assert errors.endswith(b" s, 0 tool calls, exit code 130: ended by Ctrl-C\n")
    assert all_gone(nap)


REFUSED = [
    (["absent.py"], "cannot read the script absent.py: No such file or directory", 125),
    (["."], "Is a directory", 125),
    (["latin.py"], "latin.py: not UTF-8 text at byte 7", 125),
    (["--backend", "dokcer", "-"], "unknown backend 'dokcer'", 2),
    (["--timeout", "-1", "-"], "--timeout -1", 2),
    (["--backend", "ssh", "-"], "needs a host", 2),
    (["--bogus", "-"], "bogus", 2),
]


def test_an_error_of_ours_is_one_line_or_one_object(hermes_env: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "latin.py").write_bytes(b"print('\xe9')")
    fine = json.loads(hermes_env("run", "--json", "-", stdin="print(1)").stdout)
    for words, said, code in REFUSED:
        done = hermes_env("run", *words, stdin="print(1)")
        assert (done.stdout, done.returncode) == ("", code), words
        assert said in done.stderr and "Traceback" not in done.stderr, words
        done = hermes_env("run", "--json", *words, stdin="print(1)")
        result = json.loads(done.stdout)
        assert result.keys() == fine.keys()
        assert (result["status"], result["exit_code"], done.returncode) == ("error", None, code), words
        assert said in result["error"]
