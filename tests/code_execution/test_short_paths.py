"""Short names of the script and its tools in the errors for a model."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from code_execution import execute_code
from code_execution.output import PathShortener
from environments import BaseEnvironment


def test_an_uncaught_error_shows_the_script_by_its_name_and_its_line(env: BaseEnvironment) -> None:
    code = "def f(x):\n    return [1, 2][x] + 1\n\nprint(f(0))\nf(5)\n"
    result = execute_code(code, env=env)
    first, *frames = result.stderr.splitlines()
    assert first == "Traceback (most recent call last):"
    shown = [line for line in frames if not set(line) <= set(" ^~")]
    assert shown == [
        '  File "script.py", line 5, in <module>',
        "    f(5)",
        '  File "script.py", line 2, in f',
        "    return [1, 2][x] + 1",
        "IndexError: list index out of range",
    ]
    assert "           ~~~~~~^^^" in frames  # of Python 3.11
    assert result.output.startswith("2\n--- stderr ---\nTraceback")


def test_a_syntax_error_shows_where_it_is(env: BaseEnvironment) -> None:
    result = execute_code("x = 1\nprint(x y)\n", env=env)
    lines = result.stderr.splitlines()
    assert lines[0] == '  File "script.py", line 2'
    assert lines[1] == "    print(x y)"
    assert lines[2].strip("^ ") == "" and "^" in lines[2]
    assert lines[3].startswith("SyntaxError: ")


def test_a_keyboard_interrupt_shows_the_script_alone_and_ends_it_by_its_signal(env: BaseEnvironment) -> None:
    code = """\
import os, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
os.kill(os.getpid(), signal.SIGINT)
"""
    result = execute_code(code, env=env)
    assert result.exit_code == 128 + 2
    assert result.stderr.splitlines() == [
        "Traceback (most recent call last):",
        '  File "script.py", line 3, in <module>',
        "    os.kill(os.getpid(), signal.SIGINT)",
        "KeyboardInterrupt",
    ]


def test_warnings_and_printed_tracebacks_are_short_too(env: BaseEnvironment) -> None:
    code = """
import sys, traceback, warnings, threading
warnings.warn("careful")
try:
    1 / 0
except ZeroDivisionError:
    traceback.print_exc()
    traceback.print_exc(file=sys.stdout)
    print(traceback.format_exc().splitlines()[1])
thread = threading.Thread(target=lambda: [][0])
thread.start(); thread.join()
raise ValueError("last") from ZeroDivisionError("first")
"""
    result = execute_code(code, env=env)
    assert "script.py:3: UserWarning: careful\n  warnings.warn" in result.stderr
    assert result.stderr.count('File "script.py", line') == 3
    assert result.output.count('File "script.py", line 5') == 3
    assert "/script.py" not in result.output


def test_the_script_itself_and_what_it_prints_have_real_paths(env: BaseEnvironment) -> None:
    code = "import os, hermes_tools\nprint(__file__, hermes_tools.__file__, os.path.isfile(__file__))"
    path, tools, is_file = execute_code(code, env=env).output.split()
    assert path.startswith("/") and path.endswith("/script.py") and tools.endswith("/hermes_tools.py")
    assert is_file == "True"
    assert len(path.split("/")[-2]) == len("script-12345678")


def test_a_live_traceback_is_short(env: BaseEnvironment) -> None:
    code = "import sys, traceback\ntry:\n    1 / 0\nexcept ZeroDivisionError:\n    traceback.print_exc(file=sys.stdout)"
    pieces: list[str] = []
    result = execute_code(code, env=env, on_output=pieces.append)
    assert '  File "script.py", line 3, in <module>\n' in "".join(pieces)
    assert "".join(pieces) == result.output


def test_a_script_of_the_same_name_in_the_sessions_directory_is_not_quoted(env: BaseEnvironment) -> None:
    env.execute("echo 'this is another script' >script.py")
    result = execute_code("def fail():\n    raise ValueError\nfail()", env=env)
    assert "    raise ValueError\n" in result.stderr
    assert "another" not in result.stderr


PLACE = "/tmp/hermes-a/script-b"
LONG = [f'File "{PLACE}/script.py"', f'File "{PLACE}/hermes_tools.py"', f"{PLACE}/script.py:3", f"{PLACE}/data.txt"]


@settings(max_examples=25)
@given(
    st.lists(st.sampled_from([*LONG, PLACE, 'File "', "/tmp/hermes", "/", "x", "\n", 'File "/tmp/hermes-a/scr'])),
    st.lists(st.integers(0, 300)),
    st.booleans(),
)
def test_pieces_of_any_size_are_shortened_as_the_whole_is(words: list[str], cuts: list[int], only: bool) -> None:
    data = "".join(words).encode()
    paths = PathShortener(PLACE, in_tracebacks=only)
    shown, last = b"", 0
    for cut in sorted(cut for cut in cuts if cut <= len(data)):
        shown, last = shown + paths.feed(data[last:cut]), cut
    shown += paths.feed(data[last:]) + paths.feed(b"", final=True)
    expected = data
    for name in (b"script.py", b"hermes_tools.py"):
        long = PLACE.encode() + b"/" + name
        if only:
            expected = expected.replace(b'File "' + long + b'"', b'File "' + name + b'"')
        else:
            expected = expected.replace(long, name)
    assert shown == expected


OUTPUT = (
    f'A File "{PLACE}/script.py", line 1\nB {PLACE}/script-7.py C {PLACE}/script.pyx {PLACE}/hermes_tools.py {PLACE}/s'
)
SHOWN = {
    False: f'A File "script.py", line 1\nB script-7.py C script.pyx hermes_tools.py {PLACE}/s',
    True: OUTPUT.replace(f'File "{PLACE}/script.py"', 'File "script.py"'),
}


def test_a_path_is_shortened_wherever_it_is_cut_and_one_that_the_end_cuts_is_shown() -> None:
    failed = []
    for only, shown in SHOWN.items():
        for cut in range(len(OUTPUT) + 1):
            paths = PathShortener(PLACE, in_tracebacks=only)
            pieces = [paths.feed(OUTPUT[:cut].encode()), paths.feed(OUTPUT[cut:].encode()), paths.feed(b"", final=True)]
            if b"".join(pieces).decode() != shown:
                failed.append((only, cut))
    assert failed == []
    paths = PathShortener(PLACE, in_tracebacks=True)
    assert paths.feed(f"text {PLACE} File".encode()) == f"text {PLACE} ".encode()
