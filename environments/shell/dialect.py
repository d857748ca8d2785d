"""The shell text that turns a plain bash, or any POSIX shell, into one that runs commands for us.

The shell reads its script from the stream, so each request is a few lines of shell on its standard input. The user's
text is always the argument of an `eval`: a syntax error, an unclosed quote or here-document is then that eval's error
and not the shell's end. Around the eval stands a group whose redirections

- give the command an input of its own, so that it never reads our script;
- put its output on the stream, which the shell keeps on a high descriptor, so that `exec >/dev/null` in a command
  is undone where the group ends;
- open the leash: a pipe of the command's own that everything it starts inherits. It tells the processes of one
  command from those of another even if they have left the process group or cleared their environment.

Builtins are called as `\\builtin NAME` in bash and `\\command NAME` elsewhere: users redefine `printf`, `cd` or `trap`,
and alias anything. In dash a failing `eval` ends the shell unless `command` stands in front of it.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from environments.owner import MARKER_VARIABLE
from environments.shell.framing import WATCHED

_BOOT = """\
export HERMES_COMMAND="$0"
if command -v bash >/dev/null 2>&1; then exec bash --noprofile --norc; fi
exec sh"""

_BOOT_TERMINAL = """\
case ${TERM:-dumb} in dumb) TERM=xterm-256color ;; esac
export HERMES_COMMAND="$0" TERM
stty raw -echo
printf ok
if command -v bash >/dev/null 2>&1; then exec bash --noprofile --norc 2>/dev/null; fi
exec sh +i 2>/dev/null"""
"""On a terminal bash would be interactive by its stderr, and other shells by their stdout: none of them may be."""


def boot_argv(marker: str, terminal: bool = False) -> list[str]:
    """Return the program that becomes the best shell of the target. It is visible there, and holds nothing secret."""
    return ["/bin/sh", "-c", _BOOT_TERMINAL if terminal else _BOOT, marker]


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one family of shells says what both must say."""

    name: str
    call: str
    """What stands in front of a builtin."""
    out: int
    err: int
    leash: int
    """The descriptors of the stream's output, of its standard error, and of the leash."""
    leash_open: str
    """A redirection that makes the leash; it is the last of its command and may need lines of its own."""
    setup: str
    """What comes before everything else."""
    without_leash: str
    """What goes on without a leash where none can be made."""
    dump: str
    """Commands that print exports, functions, aliases and options as shell text."""

    def definitions(self) -> str:
        """Return the text that moves the stream to high descriptors and defines what requests make use of."""
        return "\n".join(
            [
                self.setup,
                # Standard output stays on the stream for what the user's own trap on EXIT prints.
                f"\\exec {self.out}>&1 {self.err}>&2 2>/dev/null",
                self._functions(),
                *(f"__hx_{name}={shlex.quote(text)}" for name, text in self._runners().items()),
                f"{{ :; }} {self.leash_open}\n[ $? = 0 ] || {{ {self.without_leash}; }}",
            ]
        )

    def _functions(self) -> str:
        call, out, err = self.call, self.out, self.err
        values = " ".join(f'"${{{name}-}}"' for name in WATCHED)
        form = "%s\\0" * len(WATCHED)
        return f"""\
__hx_say() {{ {call} printf '\\036%s %s%s\\0%s\\0{form}' "$__hx_n" "$1" "$__hx_i" "$2" {values}; }}
__hx_state() {{ {{ {call} printf '\\036%s S' "$__hx_n"; {self.dump}; {call} printf '\\0'; }} >&{out} 2>/dev/null; }}
__hx_exit() {{ __hx_c=$?; {call} trap - EXIT; __hx_state; __hx_say X "$__hx_c" >&{err}; __hx_say X "$__hx_c" >&{out}; }}
__hx_ready() {{ {self._arm()}; __hx_i=$$; __hx_say R "{self.name}$__hx_p" >&{out}; }}"""

    def _arm(self) -> str:
        """Return the traps: one reports how a command ended the shell, the other is how we make a command end."""
        return f"{self.call} trap __hx_exit EXIT; {self.call} trap '{self.call} exit 124' USR1"

    def _runners(self) -> dict[str, str]:
        """Return the texts that run $__hx_c: in the shell itself, in a subshell, or as the shell's last command."""
        call, out = self.call, self.out
        mark = f'{call} export {MARKER_VARIABLE}="$__hx_m$__hx_i/"'
        begin = f'{call} printf \'\\036%s B%s\\0\' "$__hx_n" "$__hx_i" >&{out}'
        disarm = f"{call} trap - USR1 EXIT"
        farewell = f"{call} trap '__hx_c=$?; __hx_say X $__hx_c >&{self.err}; __hx_say X $__hx_c >&{out}' EXIT"
        command = f'{call} eval "$__hx_c"'
        runners = {}
        for how, separate in (("merge", False), ("separate", True)):
            err = self.err if separate else out
            group = f"{{ %s; }} %s1>&{out} 2>&{err} {self.leash_open}"
            stdin, end = '0<"$__hx_f" ', self._end(separate)
            last = f"{group % (command, '')}\n{call} exit"
            runners[f"main_{how}"] = f"{mark}\n{group % (command, stdin)}\n{end}"
            runners[f"sub_{how}"] = f"{mark}\n{group % (f'({command})', stdin)}\n{end}"
            attached = group % (f"({command})", "")
            # A command that fails may not have read all of its input, which must not be taken for script.
            runners[f"attached_{how}"] = f'{mark}\n{begin}\n{attached}\n{end}\n[ "$__hx_c" = 0 ] || {call} exit'
            runners[f"last_{how}"] = f"{mark}\n{disarm}\n{begin}\n{farewell}\n{last}"
            # A terminal rewrites line breaks and so messages: there the end is told by the end of the stream.
            runners[f"tty_{how}"] = f"{mark}\n{disarm}\n\\command -p stty sane\n{begin}\n{last}"
        return runners

    def _end(self, separate: bool) -> str:
        say = '__hx_say E "$__hx_c" >&'
        return "\n".join(["__hx_c=$?", *([f"{say}{self.err}"] if separate else []), f"{say}{self.out}", self._arm()])


BASH = Dialect(
    name="bash",
    call="\\builtin",
    out=211,
    err=212,
    leash=213,
    leash_open="213<<<''",
    setup="\\builtin shopt -s expand_aliases",
    # Before 5.1, bash keeps a here-string in a temporary file, and there may be no place for one.
    without_leash=(
        "for __hx_v in ${!__hx_main_*} ${!__hx_sub_*} ${!__hx_attached_*} ${!__hx_last_*} ${!__hx_tty_*}; do "
        "printf -v \"$__hx_v\" %s \"${!__hx_v//213<<<\\'\\'/}\"; done"
    ),
    dump=(
        "\\builtin declare -px;\\builtin declare -f;\\builtin export -fp;\\builtin alias -p;"
        "\\builtin shopt -p;\\builtin set +o"
    ),
)  # fmt: skip

POSIX = Dialect(
    name="sh",
    call="\\command",
    out=9,
    err=8,
    leash=7,
    leash_open="7<<__HX_LEASH\n\n__HX_LEASH",
    setup=":",
    without_leash=":",
    dump="\\command export -p;\\command set +o",
)


def prelude(nonce: str, marker: str, restore: str, cwd: str | None, known: Dialect | None = None) -> str:
    """Return the first text for a new shell.

    Args:
        nonce: What the shell begins its messages with.
        marker: What the marker variable begins with for every command of this shell.
        restore: The STATE of an earlier shell, to go on from; may be empty.
        cwd: The directory to start in; None is where the process starts.
        known: Which kind of shell it is. When that is not known both kinds are sent, and each takes its own.
    """
    if known:
        choice = known.definitions()
    else:
        bash, posix = (shlex.quote(dialect.definitions()) for dialect in (BASH, POSIX))
        choice = f'if [ -n "${{BASH_VERSION-}}" ]; then eval {bash}; else eval {posix}; fi'
    return "\n".join(
        [
            choice,
            f"__hx_n={nonce} __hx_m={shlex.quote(marker)} __hx_p=",
            restore,
            f"\\command cd -- {shlex.quote(cwd)} >/dev/null || __hx_p=1" if cwd else "",
            "__hx_ready\n",
        ]
    )
