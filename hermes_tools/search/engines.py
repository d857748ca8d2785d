"""The shell text of a search: ripgrep or `grep` for lines, `find` for names, and builtins of the shell."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Literal

from hermes_tools.files.lines import MAX_LINE_BYTES
from hermes_tools.files.target_paths import shell_word

Engine = Literal["ripgrep", "grep"]
OutputMode = Literal["content", "files_only", "count"]

SKIPPED_NAMES = (".git", ".hg", ".svn")
"""Directories of version control, and files of the same names."""
LONGEST_PATTERN = 10_000

_RIPGREP = (
    "rg --no-config --no-messages --color never --no-heading --sort path --no-ignore --hidden "
    f"--max-columns {MAX_LINE_BYTES} --max-columns-preview -H --null"
)
_GREP = "grep -r -I -s -E -H --null"
_BUSYBOX_GREP = "grep -s -E -H"
# Paths with an unclear end are left out: BusyBox prints no NUL behind a path.
_BUSYBOX_PATHS = "! -path '*:[0-9]*:*' ! -path '*\n*'"
_FIND_GREP = """
IFS=:
for folder in $PATH; do [ -x "$folder/grep" ] && break; done
unset IFS"""
_TOKEN = re.compile(r"\\.|\[\^?\]?(?:\[[:.=].*?[:.=]\]|[^\]])*\]?|\(\?|[+}]\?", re.DOTALL)
_GREP_ESCAPES = frozenset("wWsSbB123456789")


NEEDS_RIPGREP = "needs-ripgrep "
"""Prefix of a first line with the part of the pattern that `grep -E` reads in another way; the target lacks ripgrep."""


class PatternError(Exception):
    """The pattern is not valid. The message is for the caller."""


def names_command(where: str, prefilters: Sequence[str]) -> str:
    """Return a command to print the kind of a place, and relative paths of files and links, each with a NUL."""
    find = f"find . {_pruned()} \\( -type f -o -type l \\){_named(prefilters)} -print0"
    return f"""{_at_place(where)}
echo $kind
[ $kind = file ] && {{ printf 'file\\0'; exit; }}
LC_ALL=C exec {find} 2>/dev/null"""


def content_command(where: str, pattern: str, prefilters: Sequence[str], mode: OutputMode, context: int) -> str:
    """Return a command to print the kind of a place, the name of the search program, and its output.

    With `content` the output is the path, NUL, the line's number, `:` or (of context) `-`, the line and a newline; with
    `count` the path, NUL, a number, which may be 0, and a newline; with `files_only` the same or the path and NUL.
    BusyBox's grep prints a colon, or a hyphen, in place of NUL. The file of the program reveals BusyBox.

    Raises:
        PatternError: No engine takes the pattern.
    """
    if not pattern or any(sign in pattern for sign in "\n\0") or not _is_text(pattern):
        raise PatternError("invalid regex: a pattern is one line of text that is not empty, without NUL")
    if len(pattern) > LONGEST_PATTERN:
        raise PatternError(f"the regex has {len(pattern):,} characters; at most {LONGEST_PATTERN:,} are searched for")
    lines = f" -n -C {context}" if context else " -n"
    of_ripgrep = lines if mode == "content" else " -c"
    of_grep = lines if mode == "content" else " -c" if mode == "count" else " -l"
    of_busybox = lines if mode == "content" else " -c"
    rg_globs = "".join(f" -g {shlex.quote(name)}" for name in prefilters)
    rg_globs += "".join(f" -g '!{name}'" for name in SKIPPED_NAMES)
    grep_globs = "".join(f" --include={shlex.quote(name)}" for name in prefilters)
    grep_globs += "".join(f" --exclude={name} --exclude-dir={name}" for name in SKIPPED_NAMES)
    if pattern.startswith("(?i)"):
        plain, ignoring_case = pattern[4:], " -i"
    else:
        plain, ignoring_case = pattern, ""
    for_grep = f"{ignoring_case} -e {shlex.quote(plain)}"
    # In the C locale, grep reads a file in any encoding as text. Only a pattern beyond ASCII needs characters.
    locale = "C" if pattern.isascii() else "C.UTF-8"
    find = f"find . {_pruned()} -type f{_named(prefilters)} {_BUSYBOX_PATHS}"
    with_grep = f"""
export LC_ALL={locale}{_FIND_GREP}
if [ "$folder/grep" -ef "$folder/busybox" ]; then
    echo $kind busybox
    [ $kind = directory ] && exec {find} -exec {_BUSYBOX_GREP}{of_busybox}{for_grep} {{}} +
    exec {_BUSYBOX_GREP}{of_busybox}{for_grep} -
fi
echo $kind grep
[ $kind = directory ] && exec {_GREP}{of_grep}{grep_globs}{for_grep} ./
exec {_GREP}{of_grep}{for_grep} -"""
    if token := part_unlike_grep(plain):
        with_grep = f"printf '%s\\n' {shlex.quote(NEEDS_RIPGREP + token)}"
    return f"""{_at_place(where)}
if command -v rg >/dev/null 2>&1; then
    echo $kind ripgrep
    [ $kind = directory ] && exec {_RIPGREP}{of_ripgrep}{rg_globs} -e {shlex.quote(pattern)} ./
    exec {_RIPGREP}{of_ripgrep} -e {shlex.quote(pattern)} -
fi
{with_grep}"""


def part_unlike_grep(pattern: str) -> str | None:
    r"""Return the first part of a regular expression with another meaning in `grep -E`, or None.

    Such parts are escapes such as `\d`, escapes in sets, groups such as `(?:`, and lazy repetitions.
    """
    for token in _TOKEN.findall(pattern):
        escaped = re.findall(r"\\(.)", token)
        if token[0] == "[":
            is_other = any(char.isalnum() or char == "]" for char in escaped)
        else:
            is_other = not escaped or (escaped[0].isalnum() and escaped[0] not in _GREP_ESCAPES)
        if is_other:
            return str(token)
    return None


def _is_text(pattern: str) -> bool:
    try:
        pattern.encode()
    except UnicodeEncodeError:
        return False
    return True


def _at_place(where: str) -> str:
    """Return shell text that enters the directory or redirects the file; failing both, it prints a word and exits."""
    return f"""
target={shell_word(where)}
kind=directory
if [ -d "$target" ]; then cd "$target" 2>/dev/null || {{ echo unreadable; exit; }}
elif [ -f "$target" ]; then
    kind=file
    [ -r "$target" ] || {{ echo unreadable; exit; }}
    exec <"$target"
elif [ -e "$target" ]; then echo special; exit
else echo missing; exit
fi
"""


def _pruned() -> str:
    names = " -o ".join(f"-name {name}" for name in SKIPPED_NAMES)
    return f"\\( {names} \\) -prune -o"


def _named(prefilters: Sequence[str]) -> str:
    if not prefilters:
        return ""
    return " \\( " + " -o ".join(f"-name {shlex.quote(name)}" for name in prefilters) + " \\)"
