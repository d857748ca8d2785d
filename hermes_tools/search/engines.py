"""The shell commands that search in the target: with ripgrep, with `grep --null`, or with any POSIX grep.

All three take the same files (hidden and ignored ones too; no version control folders, no symbolic links, no file
with a NUL byte in it) and the same patterns, so that what is found does not depend on what is installed.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from hermes_tools.files.long_lines import MAX_LINE_BYTES
from hermes_tools.files.target_paths import shell_word
from hermes_tools.search.pattern import SearchPattern

Engine = Literal["rg", "grep", "posix"]

SKIPPED_FOLDERS = (".git", ".hg", ".svn")
SECTION = "="
"""The line that begins each file's part of the output; others begin with a line number or a colon, or are empty."""

# The newline before it ends a last line that a program printed as the file has it, without one.
_SECTION_LINE = f"printf '\\n{SECTION}\\n'"
NAME_END = "\1"
_RG = "rg --no-config --no-messages --color never --encoding none --no-unicode --no-mmap --no-heading"
# A ripgrep too old for these options is as good as none.
_DETECT = f"""
if command -v rg >/dev/null 2>&1 && echo x | {_RG} -q x - >/dev/null 2>&1; then engine=rg
elif printf 'x\\n' | grep --null -q x 2>/dev/null; then engine=grep
else engine=posix
fi"""
# busybox grep has neither --null nor -I: file names come a line each, and NUL bytes are looked for apart.
_COUNT_IN_ONE = """
count_in() {
    count=$(%s) && [ "$(tr -dc '\\000' <"$1" | head -c 1 | wc -c)" -eq 0 ] && printf '%%s\\000%%s\\n' "$1" "$count"
}"""
_POSIX_COUNT = _COUNT_IN_ONE % 'grep -a -E -c -e "$pattern" "$1"'
_POSIX_BATCH = (
    _POSIX_COUNT
    + """
newline='
'
case "$*" in
*"$newline"*) for file do count_in "$file"; done ;;
*) grep -a -E -l -e "$pattern" "$@" | while IFS= read -r file; do count_in "$file" </dev/null; done ;;
esac"""
)


@dataclass(frozen=True, slots=True)
class LineRequest:
    """Which matching lines of one file are wanted."""

    path: str
    skip: int
    count: int


def list_command(where: str, prefilters: Sequence[str]) -> str:
    """Print `directory`, and each file below it (relative, each ended by NUL); or `file` or `missing`."""
    find = f"find . {_pruned()} \\( -type f -o -type l \\){_named(prefilters)} -print0 2>/dev/null"
    return _in_place(where, f"echo directory; {find}; true", "echo file")


def count_command(where: str, pattern: SearchPattern, prefilters: Sequence[str], engine: Engine | None) -> str:
    """Print what stands there, as `list_command` does, with the engine, and then each file with its matching lines.

    After `directory rg`, each file is a path, NUL, a number and a newline. After `invalid` comes why the program
    refused the pattern.
    """
    rg_globs = "".join(f" -g {shlex.quote(name)}" for name in prefilters)
    rg_globs += "".join(f" -g '!{name}'" for name in SKIPPED_FOLDERS)
    find = f"find . {_pruned()} -type f{_named(prefilters)}"
    in_directory = f"""
echo "directory $engine"
case $engine in
rg) {_RG} --no-ignore --hidden -c --null{rg_globs} -e "$rust" ./ ;;
grep) {find} -exec grep -I -E -l --null -e "$pattern" {{}} + | xargs -0 -r grep -I -E -c -H --null -e "$pattern" ;;
posix) {find} -exec sh -c {shlex.quote(_POSIX_BATCH)} sh {{}} + ;;
esac 2>/dev/null
true"""
    in_file = f"""
echo "file $engine"
case $engine in
rg) {_COUNT_IN_ONE % f'{_RG} -a -c --no-filename -e "$rust" "$1"'} ;;
*) {_POSIX_COUNT} ;;
esac
count_in "$target" 2>/dev/null
true"""
    return f"""
{_patterns(pattern)}
{f"engine={engine}" if engine else _DETECT}
if [ $engine = rg ]; then refusal=$({_RG} -q -e "$rust" /dev/null 2>&1)
else refusal=$(echo x | grep -E -q -e "$pattern" 2>&1)
fi
if [ $? -gt 1 ]; then echo invalid; printf '%s\\n' "$refusal"
else {_in_place(where, in_directory, in_file)}
fi"""


def lines_command(directory: str, pattern: SearchPattern, requests: Sequence[LineRequest], engine: Engine) -> str:
    """Print for each file a section line and the matching lines that are wanted, each as number, colon and text."""
    if engine == "rg":
        lines = f'{_RG} -a -n --no-filename -m "$2" -e "$rust" "$1"'
    else:
        lines = 'grep -a -E -n -h -m "$2" -e "$pattern" "$1"'
    wanted = "\n".join(
        f"{_SECTION_LINE}; lines {_relative(request.path)} {request.skip + request.count}"
        + (f" | tail -n +{request.skip + 1}" if request.skip else "")
        for request in requests
    )
    return f"""
{_patterns(pattern)}
lines() {{ {lines}; }}
cd {shell_word(directory)} && {{
{wanted}
}} 2>/dev/null | cut -b 1-{MAX_LINE_BYTES + 20}"""


def batch_command(directory: str, pattern: SearchPattern, requests: Sequence[LineRequest], engine: Engine) -> str:
    """Print the same lines from a single process, each as `./`, path, `NAME_END`, number, colon and text.

    Lines to skip are printed too. Only for engines that end a file name with NUL, which `cut` may not take.
    """
    most = max(request.skip + request.count for request in requests)
    # One thread: with more, ripgrep prints the files in the order they are done.
    program = f'{_RG} -j 1 -e "$rust"' if engine == "rg" else 'grep -E -e "$pattern"'
    paths = " ".join(_relative(request.path) for request in requests)
    return f"""
{_patterns(pattern)}
cd {shell_word(directory)} && printf '%s\\000' {paths} | xargs -0 {program} -a -n -H --null -m {most} 2>/dev/null |
tr '\\000' '\\001' | cut -b 1-{MAX_LINE_BYTES + 5000}"""


def ranges_command(directory: str, ranges: Sequence[tuple[str, Sequence[tuple[int, int]]]]) -> str:
    """Print for each file a section line, then the lines of its ranges (first and last, from 1) after a colon."""
    parts = []
    for path, spans in ranges:
        script = "\n".join(f"{first},{last}p" for first, last in spans)
        parts.append(
            f"{_SECTION_LINE}; sed -n -f /dev/stdin {_relative(path)} <<'END'\ns/^/:/\n{script}\n{spans[-1][1]}q\nEND"
        )
    body = "\n".join(parts)
    return f"cd {shell_word(directory)} && {{\n{body}\n}} 2>/dev/null | LC_ALL=C cut -b 1-{MAX_LINE_BYTES}"


def _in_place(where: str, in_directory: str, in_file: str) -> str:
    return f"""
target={shell_word(where)}
if [ -d "$target" ]; then
    if cd "$target" 2>/dev/null; then {in_directory}
    else echo unreadable
    fi
elif [ -f "$target" ]; then {in_file}
elif [ -e "$target" ]; then echo special
else echo missing
fi"""


def _patterns(pattern: SearchPattern) -> str:
    # printf makes the pattern's bytes, which need not be UTF-8, from text that is ASCII.
    extended = re.sub(
        rb"[^A-Za-z0-9 _.,:/@=+*?()\[\]{}|^$<>~!#&;\"]", lambda found: b"\\%03o" % found.group()[0], pattern.extended
    ).decode("ascii")
    return f"LC_ALL=C; export LC_ALL\npattern=$(printf '{extended}'); export pattern\nrust={shlex.quote(pattern.rust)}"


def _pruned() -> str:
    names = " -o ".join(f"-name {name}" for name in SKIPPED_FOLDERS)
    return f"\\( {names} \\) -prune -o"


def _named(prefilters: Sequence[str]) -> str:
    if not prefilters:
        return ""
    return " \\( " + " -o ".join(f"-name {shlex.quote(name)}" for name in prefilters) + " \\)"


def _relative(path: str) -> str:
    return shlex.quote(f"./{path}")
