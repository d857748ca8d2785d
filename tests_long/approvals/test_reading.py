"""Generated texts: the parser finds each command that bash runs."""

from __future__ import annotations

import subprocess
from pathlib import Path

import hypothesis.strategies as st
from hypothesis import given, settings

from environments.approvals.command import UNKNOWN
from environments.approvals.reader import read

# The command "zap" records its runs. Blanks are written as "_" in the tables, new lines as "^".
SIGNS = (
    "zap zap zap zap a echo_ x= x+= eval_ builtin_ command_ ! time_ -p f() f_ function_g in ' \" \\ \\^ $ ` # _ "
    "; ^ & && | || ( ) { } < >f << <<E E ^E^ <<< case_x_in esac x) *) ;; if_true; then fi do done [[ ]] $x "
    "${x $( (( )) $@ $1 ~ 2>&1 [ $' \\' \\\" $\" - = , {zap,} {a,zap} z\"\"ap \\zap $'\\x7aap' za ${x:-zap} ${a[0]} "
    '${a[@]} $* "$@" shift; set_--_'
)
FORMS = (
    "\"{}\" '{}' $({}) `{}` ${{x:-{}}} ${{x#{}}} ({}) {{_{};_}} <({}) $'{}' $(({})) a={}_ <<E^{}^E^ <<'E'^{}^E^ "
    ":_<<-E^\t{}^\tE^ <<{}^E^zap^ case_x_in_{})_zap;;_esac if_true;_then_{};_fi for_i_in_{};_do_zap;_done "
    "for_i_in_{};_do_$i;_done f()_{{_{};_}};_f [[_{}_]] eval_'{}' eval_\"{}\" echo_{};_zap :_{}^zap^ "
    ':_"${{x:-{}}}"_;_zap :_"$({})"_;_zap_;_:_"" x={};_$x x=\'{}\';_$x x="{}";_eval_"$x" x=({});_${{x[0]}} '
    'a=([1]={});_${{a[1]}} a=({});_"${{a[@]}}" set_--_{};_$1 set_--_x_{};_shift;_$* f()_{{_$1;_}};_f_{} '
    "f()_{{_\"$@\";_}};_f_{} read_x_<<<_{};_$x read_x_<<<_'{}';_$x printf_-v_x_%s_{};_$x trap_'{}'_EXIT "
    "printf_-v_'a[$({})]'_x test_-v_'a[$({})]' [[_'a[$({})]'_-eq_1_]] declare_-a_'a=($({}))' "
    "declare_'x={}';_$x let_'x=a[$({})]' mapfile_-c1_-C_'{}'_<<<_x mapfile_-t_a_<<<_'{}';_$a a[$({})]=1 "
    "x='a[$({})]';_((_x_)) declare_-n_q=z;_z={};_$q z={};_q=z;_${{!q}} source_/dev/stdin_<<<_'{}' "
    "PS4='$({})';_set_-x;_: for_((i=0;i<1;i++));_do_{};_done x={};_x=${{x%_}};_$x "
    "shopt_-s_expand_aliases^alias_b='{}'^b {},{} {{{},}} {{{},{}}}"
)
# PATH has only builtins, so that a text leaves nothing but zap's records and empty files.
DRIVER = 'FUNCNEST=30; zap() { echo ran >&9; }; ( eval "$1" ) </dev/null >/dev/null 2>&1 9>>ran_'


def entries(table: str) -> list[str]:
    return [entry.replace("_", " ").replace("^", "\n") for entry in table.split(" ")]


PIECES = st.lists(st.sampled_from(entries(SIGNS)), min_size=1, max_size=5).map("".join)
TEXTS = st.recursive(
    st.just("zap") | PIECES,
    lambda inner: (
        st.builds(
            lambda form, text: form.replace("{}", "\0").format().replace("\0", text),
            st.sampled_from(entries(FORMS)),
            inner,
        )
        | st.lists(inner | st.sampled_from([" ", "\n", ";", "&&"]), min_size=2, max_size=4).map("".join)
    ),
    max_leaves=6,
).filter(lambda text: "zap" in text and text.count("set -x") < 2)
"""Texts to run. A trace with a prompt that switches the trace on again starts processes without end."""


def test_each_command_that_bash_runs_is_found(tmp_path: Path) -> None:
    ran: list[str] = []

    @settings(max_examples=1000, derandomize=True)
    @given(TEXTS)
    def check(text: str) -> None:
        if runs_zap(tmp_path, text):
            ran.append(text)
            assert finds_zap(text)

    check()
    assert len(set(ran)) > 150


def runs_zap(place: Path, text: str) -> bool:
    note = place / "ran_"
    note.unlink(missing_ok=True)
    subprocess.run(
        ["/bin/bash", "-c", DRIVER, "x", text], cwd=place, env={"PATH": "/nonexistent"}, timeout=60, check=False
    )
    return note.exists() and bool(note.read_text())


def finds_zap(text: str) -> bool:
    """Return True if the parser finds zap in a text, a program that may be zap, or a reason for unknown commands."""
    reading = read(text)
    names = {command.name for command in reading.commands}
    return bool(reading.unread or reading.findings) or "zap" in names or any(UNKNOWN in name for name in names)
