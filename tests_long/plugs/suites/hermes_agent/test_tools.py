"""Uses of hermes-agent's terminal, file and code tools by a model, in our environments and in hermes-agent's own."""

from __future__ import annotations

import json
import secrets
import threading
import time
from typing import Any

from model_tools import handle_function_call
from tools.interrupt import set_interrupt

SCRIPT = """
import hermes_tools
for number in range(3):
    hermes_tools.write_file(f"script/{number}.txt", f"number {number}\\n")
print(hermes_tools.terminal("cat script/?.txt")["output"].strip().replace("\\n", "|"))
print(hermes_tools.search_files("^number 2$", path="script")["total_count"])
"""


def tool(name: str, **arguments: object) -> Any:
    """Call a tool as the model of a conversation does."""
    answer = handle_function_call(name, arguments, task_id="checks")
    assert isinstance(answer, str)
    return json.loads(answer)


def run(command: str, **arguments: object) -> str:
    """Run a command that has to succeed, and return the output."""
    result = tool("terminal", command=command, **arguments)
    assert (result["exit_code"], result["error"]) == (0, None), result
    return result["output"].strip()


def naps(nap: str) -> int:
    counting = f"cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -c '[s]leep {nap}'; true"
    return int(run(counting).splitlines()[-1])


def new_nap() -> str:
    return f"31.{secrets.randbelow(10**9):09}"


def test_a_commands_output_and_exit_code_are_returned() -> None:
    result = tool("terminal", command="echo out; echo err >&2; exit 3")
    assert (sorted(result["output"].split()), result["exit_code"]) == (["err", "out"], 3)


def test_a_directory_and_an_export_are_there_in_the_next_command() -> None:
    run("mkdir -p sub && cd sub && export KEPT='a b'")
    assert run('basename "$PWD"; echo "$KEPT"').splitlines() == ["sub", "a b"]
    run("cd ..; unset KEPT")


def test_a_here_document_arrives_as_it_is() -> None:
    assert run("cat <<'END'\n$HOME `id` \\ 'single' \"double\" üñí\nEND") == "$HOME `id` \\ 'single' \"double\" üñí"


def test_a_variable_that_was_unset_is_gone() -> None:
    run("export GONE=1")
    run("unset GONE")
    assert run('echo "[$GONE]"') == "[]"


def test_one_command_may_run_in_another_directory() -> None:
    before = run("pwd")
    assert run("pwd", workdir="/usr") == "/usr"
    assert run("pwd", workdir=before) == before


def test_a_command_that_takes_too_long_is_ended_with_its_children() -> None:
    nap = new_nap()
    result = tool("terminal", command=f"echo begun; sleep {nap} | sleep {nap}", timeout=2)
    assert result["exit_code"] == 124 and "begun" in result["output"]
    assert naps(nap) == 0


def test_what_a_command_exported_before_its_time_was_up_does_not_break_the_session() -> None:
    run("export STILL=here")
    tool("terminal", command="sleep 60", timeout=1)
    assert run("echo $STILL") == "here"


def test_an_interrupt_ends_the_command_at_once() -> None:
    nap, here = new_nap(), threading.get_ident()
    timer = threading.Timer(1, set_interrupt, (True, here))
    timer.start()
    began = time.monotonic()
    try:
        result = tool("terminal", command=f"sleep {nap}")
    finally:
        timer.join()
        set_interrupt(False, here)
    assert result["exit_code"] == 130 and time.monotonic() - began < 25
    assert naps(nap) == 0


def test_of_much_output_both_ends_are_kept() -> None:
    result = tool("terminal", command="echo first; seq 1 200000; echo last")
    assert result["output"].startswith("first\n") and result["output"].rstrip().endswith("last")
    assert len(result["output"]) < 150_000


def test_a_command_reads_end_of_file() -> None:
    assert run("cat; read line || echo nothing", timeout=10) == "nothing"


def test_a_process_in_the_background_goes_on_and_its_output_is_there() -> None:
    started = tool("terminal", command="echo begun; sleep 1; echo done; exit 4", background=True)
    waited = tool("process", action="wait", session_id=started["session_id"], timeout=30)
    assert waited["status"] == "exited" and waited["exit_code"] == 4
    assert "begun" in waited["output"] and "done" in waited["output"]


def test_a_process_in_the_background_can_be_killed() -> None:
    nap = new_nap()
    started = tool("terminal", command=f"sleep {nap}", background=True)
    deadline = time.monotonic() + 10
    while not naps(nap):
        assert time.monotonic() < deadline
    tool("process", action="kill", session_id=started["session_id"])
    while naps(nap):
        assert time.monotonic() < deadline


def test_a_file_is_written_and_read_as_it_is() -> None:
    text = "Zeile\twith 'quotes', \"more\", $HOME `id` \\n\nüñí — 🐍\n\nend without a line end"
    assert "error" not in tool("write_file", path="odd name.txt", content=text)
    read = tool("read_file", path="odd name.txt")
    assert read["content"].splitlines() == [f"{number}|{line}" for number, line in enumerate(text.splitlines(), 1)]
    assert run("cat 'odd name.txt' | wc -c") == str(len(text.encode()))


def test_a_large_file_comes_through_whole() -> None:
    text = "".join(f"{number} {'x' * 90}\n" for number in range(20_000))
    assert "error" not in tool("write_file", path="large.txt", content=text)
    assert run("wc -c < large.txt") == str(len(text))
    changed = tool("patch", path="large.txt", old_string="\n9999 x", new_string="\n9999 y")
    assert changed["success"], changed
    assert run("wc -c < large.txt; grep -c '^9999 yx' large.txt").split() == [str(len(text)), "1"]


def test_relative_paths_follow_the_terminal() -> None:
    run("mkdir -p deep/er && cd deep/er")
    try:
        tool("write_file", path="here.txt", content="in deep\n")
        assert run("cat here.txt; cd ../..; cat deep/er/here.txt").splitlines() == ["in deep", "in deep"]
    finally:
        run("cd ~ && cd - >/dev/null; while [ -e ../er ] || [ -e ../deep ]; do cd ..; done")


def test_a_patch_changes_what_it_names_and_nothing_else() -> None:
    tool("write_file", path="code.py", content="def one():\n    return 1\n\n\ndef two():\n    return 2\n")
    changed = tool("patch", path="code.py", old_string="    return 2", new_string="    return 'two'")
    assert changed["success"] and "+    return 'two'" in changed["diff"]
    assert run("cat code.py").splitlines()[-1] == "    return 'two'"
    assert not tool("patch", path="code.py", old_string="not there", new_string="x").get("success")


def test_files_are_searched() -> None:
    run("mkdir -p found/in && echo needle-7 > found/in/a.txt && echo hay > found/b.txt")
    assert [match["line"] for match in tool("search_files", pattern="needle-[0-9]", path="found")["matches"]] == [1]
    listed = tool("search_files", pattern="*.txt", target="files", path="found")["files"]
    assert sorted(path.rsplit("/", 1)[-1] for path in listed) == ["a.txt", "b.txt"]


def test_a_script_calls_tools_in_the_same_place() -> None:
    result = tool("execute_code", code=SCRIPT)
    assert result["status"] == "success", result
    assert result["output"].splitlines() == ["number 0|number 1|number 2", "1"]
    assert result["tool_calls_made"] == 5


def test_a_script_sees_what_the_session_exported() -> None:
    run("export FOR_SCRIPTS='of the session'")
    result = tool("execute_code", code="import os; print(os.environ.get('FOR_SCRIPTS'))")
    assert result["output"].strip() == "of the session"


def test_a_script_that_fails_says_why() -> None:
    result = tool("execute_code", code="print('before'); raise ValueError('that is why')")
    assert result["status"] == "error"
    assert "before" in result["output"] and "ValueError: that is why" in result["output"]
