"""Texts run by internal shells, for any POSIX shell: process looks, users, watchdogs, scratch directories."""

from __future__ import annotations

import shlex
import zlib
from collections.abc import Iterable, Sequence
from enum import Enum

from environments.owner import MARKER_VARIABLE
from environments.plain_number import plain_number
from environments.shell.dialect.base import LEAVE_SIGNAL, OTHER_LEAVE_SIGNAL, SURVIVED, directory_name

_HAS_PROC = "[ -e /proc/self/stat ]"
TELL_TIME = f"""\
if {_HAS_PROC}; then
  read -r line </proc/self/stat
  echo "$line"
else
  echo "$(command -p date +%s)00"
fi"""
"""Prints the start time of its own process: the current time, if the process is new."""
TELL_TIME_BY_BUILTINS = 'read -r now line </proc/uptime\necho "${now%.*}${now#*.}"'
"""Prints the current time without a new process; where /proc is emulated, by no other means than process starts."""
BRANDS = 1_000_000
"""Brands of one environment, see `branding`."""
_NAMES = 1800
"""Keeps the brands within 63 bits, readable by every shell."""
# The first of each pair lists processes with a marker, or all processes. The second starts no process but is slow:
# among many running processes it would hardly get the processor, so these are stopped first.
_STOPPING = r"""
stop() {
  if [ -n "$most" ]; then set -- /proc/[0-9]*; if [ $# -gt "$most" ]; then kill -s STOP -- -1; most= all=-1; fi; fi
}
stop
"""
_MARKED = r"""
marked=$(command -p grep -zlsF -- "$marker" /proc/[0-9]*/environ)
if [ -n "$brand" ]; then
  marked="$marked $(command -p grep -ls "^Max file locks .* $brand " /proc/[0-9]*/limits)"
fi"""
_MARKED_BY_BUILTINS = rf"""marked= unmarked=
stop
for d in /proc/[0-9]*; do
  w= whose=unmarked
  while IFS= read -r w || [ -n "$w" ]; do
    case $w in
      @MARKERS@) whose=marked; break ;;
      *{MARKER_VARIABLE}=*) whose= ;;
    esac
    w=
  done <"$d/environ"
  if [ -n "$brand" ]; then
    while read -r w; do
      case $w in "Max file locks "*" "$brand" "*) whose=marked ;; esac
    done <"$d/limits"
  fi
  case $whose in
    marked) marked="$marked $d/environ" ;;
    unmarked) unmarked="$unmarked ${{d#/proc/}}" ;;
  esac
done 2>/dev/null"""
_TABLE = "command -p cat /proc/[0-9]*/stat 2>/dev/null"
_TABLE_BY_BUILTINS = r"""stop
for d in /proc/[0-9]*; do
  while IFS= read -r w; do printf '%s\n' "$w"; done <"$d/stat"
done 2>/dev/null"""
# Builtins, grep and cat alone, as a target may lack ps, pgrep and find. Set before the text: the arguments of `look`.
# $keepalive and $end are the ends of the keepalive pipe, $output_of is the shell with the command's output, $excluded a
# shell to leave out. The table of all processes comes first: the end of a process changes the parent of its children.
_LOOK = r"""
children() { if [ -n "$wake" ]; then read -r pids <"/proc/$wake/task/$wake/children"; fi; } 2>/dev/null
pids=
children
earlier=$pids
read -r self rest </proc/self/stat
set -- $rest
frozen=
for p in $freeze; do if [ "$p" != "$4" ]; then frozen="$frozen -$p"; fi; done
if [ -n "$frozen" ]; then kill -s STOP -- $frozen 2>/dev/null; fi
pipe=
for p in $holders; do
  if [ -p "/proc/$p/fd/$keepalive" ]; then pipe=/proc/$p/fd/$keepalive; break; fi
  if [ -p "/proc/$p/fd/$end" ]; then pipe=/proc/$p/fd/$end; break; fi
done
# A shell on a terminal has /dev/null for its errors, as has half of what runs on a machine.
output= errors=
if [ -n "$output_of" ]; then
  if [ ! "/proc/$output_of/fd/$out" -ef /dev/null ]; then output=/proc/$output_of/fd/$out; fi
  if [ -p "/proc/$output_of/fd/$err" ] || [ -S "/proc/$output_of/fd/$err" ]; then errors=/proc/$output_of/fd/$err; fi
fi
@MARKED@
found=
for p in $marked; do
  p=${p#/proc/} p=${p%%/*}
  case " $excluded $$ $self$found " in *" $p "*) ;; *) if [ -e "/proc/$p" ]; then found="$found $p"; fi ;; esac
done
held= said=
if [ -n "$pipe" ]; then
  for d in /proc/[0-9]*; do
    p=${d#/proc/}
    if [ "$d/fd/$keepalive" -ef "$pipe" ]; then
      case " $excluded $$ $self$found " in *" $p "*) ;; *) held="$held $p" ;; esac
    elif [ -n "$output$errors" ] && { [ "$d/fd/1" -ef "$output" ] || [ "$d/fd/2" -ef "$output" ] ||
      [ "$d/fd/2" -ef "$errors" ]; }; then
      case " $output_of $$ $self " in *" $p "*) ;; *) said="$said $p" ;; esac
    fi
  done
fi
echo "$$ $self"
echo "$found"
echo "$held"
echo "$said"
echo "$unmarked"
# Mostly nothing is left, and the table is not needed.
if [ -n "$found$held$said$known" ]; then
@TABLE@
fi
# What the shell has started meanwhile it would wait for before it leaves.
pids= late=
children
for p in $pids; do case " $earlier " in *" $p "*) ;; *) late="$late $p" ;; esac; done
if [ -n "$wake" ]; then kill -s "$leave" "$wake" 2>/dev/null; fi
# A fork of the shell has the keepalive pipe without the marker, and comes first: it would go on after its child.
# A process with both is not sent a signal twice, as it may print on the signal.
if [ -n "$signal" ] && [ -n "$found$held$late" ]; then kill -s "$signal" $held $found $late 2>/dev/null; fi
if [ -n "$frozen$all" ] && [ -n "$thaw" ]; then kill -s CONT -- $frozen $all 2>/dev/null; fi
:
"""
# The same by `ps`, for systems without /proc. Holders of a file descriptor cannot be found there, so the look sends no
# signal: a fork of the shell, recognized as its child, must be signalled before its own child. macOS and Linux take
# different `ps` options for the environment. The `ps` with environments runs first, and has ended when the table is
# made.
_SHOW = "{ command -p ps -A -E -ww -o pid= -o command= || command -p ps axeww -o pid= -o command=; } 2>/dev/null"
_LOOK_BY_PS = r"""
self=$(exec sh -c 'echo $PPID')
mine=$(command -p ps -o pgid= -p $$)
frozen=
for p in $freeze; do if [ "$p" != "${mine##* }" ]; then frozen="$frozen -$p"; fi; done
if [ -n "$frozen" ]; then kill -s STOP -- $frozen 2>/dev/null; fi
marked=$(@MARKED@)
table=$(TZ=UTC0 LC_ALL=C command -p ps -A -o pid= -o stat= -o ppid= -o pgid= -o lstart=)
there=" $(echo "$table" | while read -r p w; do echo "$p"; done | command -p tr '\n' ' ') "
found=
for p in $marked; do
  case " $excluded $$ $self " in *" $p "*) continue ;; esac
  case $there in *" $p "*) found="$found $p" ;; esac
done
echo "$$ $self @"
echo "$found"
echo
echo
echo
if [ -n "$found$known" ]; then echo "$table" | while read -r p s u g w; do echo "$p () $s $u $g @ $w"; done; fi
if [ -n "$wake" ]; then kill -s "$leave" "$wake" 2>/dev/null || kill -s "$other" "$wake" 2>/dev/null; fi
if [ -n "$frozen" ] && [ -n "$thaw" ]; then kill -s CONT -- $frozen 2>/dev/null; fi
:
"""
# A process group may share a limit with the groups around it, so all groups above are read too. Another limit is
# printed with the count of all processes, a superset of those under the limit. Threads count as processes, but counting
# threads takes long among many.
_COUNT = r"""
seen=
while IFS=: read -r n kinds path; do
  case $kinds in *pids*|'') ;; *) continue ;; esac
  while :; do
    for d in "/sys/fs/cgroup/pids$path" "/sys/fs/cgroup$path"; do
      if [ -r "$d/pids.current" ] && [ -r "$d/pids.max" ]; then
        read -r n <"$d/pids.current"
        read -r limit <"$d/pids.max"
        echo "$n $limit"
        case $limit in max) ;; *) seen=1 ;; esac
      fi
    done
    case $path in '') break ;; *) path=${path%/*} ;; esac
  done
done </proc/self/cgroup
if [ -z "$seen" ]; then
  if [ -n "$known" ]; then set -- /proc/[0-9]*/task/[0-9]*; echo "$# $known"; fi
  set -- /proc/[0-9]*
  printf '%s ' $#
  command ulimit -u || command ulimit -p
fi
"""
# Set before the text: $shell, $marker, and $keepalive, $end, $out, $err as above. Prints whether another process holds
# the shell's output; without /proc this is unknown.
_HOLDERS = r"""
if [ ! -e /proc/self/stat ]; then echo held; exit; fi
holds() {
  [ -r "/proc/$1/fd" ] || { [ -e "/proc/$1" ]; return; }
  for f in "/proc/$1/fd/"*; do
    case ${f##*/} in "$out"|"$err") continue ;; esac
    if [ "$f" -ef "/proc/$shell/fd/$out" ] || [ "$f" -ef "/proc/$shell/fd/$err" ]; then return 0; fi
  done
  return 1
}
read -r self rest </proc/self/stat
for p in $(command -p grep -zlsF -- "$marker" /proc/[0-9]*/environ); do
  p=${p%/environ} p=${p#/proc/}
  case " $shell $$ $self " in *" $p "*) continue ;; esac
  if holds "$p"; then echo held; exit; fi
done
for d in /proc/[0-9]*; do
  if [ "$d/fd/$keepalive" -ef "/proc/$shell/fd/$end" ] && [ "$d" != "/proc/$shell" ]; then
    if holds "${d#/proc/}"; then echo held; exit; fi
  fi
done
echo free
"""
# $0 is the marker, $1 the prefix of directories, $2 a secret word. Each line read asks for a new pair of pipes, and the
# next line confirms their open. Output of the old pipes is then discarded.
_RELAY = r"""
export HERMES_COMMAND="$0"
umask 077
n=0
while read -r line; do
  if [ $n -gt 0 ]; then
    kill $out $err
    cat <&3 >/dev/null 4<&- &
    cat <&4 >/dev/null 3<&- &
    exec 3<&- 4<&-
  fi
  n=$((n+1)) d=${TMPDIR:-/tmp}/$1-$n
  mkdir -m 700 -- "$d" && mkfifo "$d/1" "$d/2" || exit 1
  exec 5<>"$d/1" 6<>"$d/2" 3<"$d/1" 4<"$d/2"
  cat <&3 3<&- 4<&- 5>&- 6>&- & out=$!
  cat <&4 >&2 3<&- 4<&- 5>&- 6>&- & err=$!
  printf '\036%s %s\n' "$2" "$d"
  printf '\036%s %s\n' "$2" "$d" >&2
  read -r line
  exec 5>&- 6>&-
  rm -rf -- "$d"
done
kill $out $err
"""


def _settings(**values: object) -> str:
    return "".join(f"{name}={shlex.quote(str(value))}\n" for name, value in values.items())


def look(
    marker: str,
    ends: tuple[int, int],
    outputs: tuple[int, int],
    holders: Sequence[int],
    known: bool,
    output_of: int | None,
    excluded: int | None,
    wake: int | None,
    signal: str,
    brand: str | None = None,
    freeze: Sequence[int] = (),
    thaw: bool = True,
    builtins_only: bool = False,
    most: int | None = None,
) -> str:
    """Return text to look for the processes of a command.

    The text prints its own two process ids; the ids of processes with the marker; holders of the keepalive pipe; other
    processes with the output of the command's shell; processes without any marker, if the look starts no process; and
    the `stat` of all processes, if any process was found.

    Args:
        marker: A substring of the processes' environment; several are separated by newlines, and any matches.
        ends: The file descriptors of the keepalive pipe in a command and in its shell.
        outputs: The file descriptors of the command's output in a shell.
        holders: Processes that may hold the keepalive pipe.
        known: True if an earlier look found processes.
        output_of: The shell that shares its output with the command's processes; None skips this search.
        excluded: A shell to leave out.
        wake: A shell that is to leave its command.
        signal: The signal for processes with the marker or the keepalive pipe; empty sends none.
        brand: The brand of the processes, or a pattern of brands, see `branding`.
        freeze: Process groups to stop during the look, except the looking shell's own group.
        thaw: True to continue them afterwards.
        builtins_only: True to start no process.
        most: The process count above which such a look stops all processes first; None never does.
    """
    head = _settings(
        marker=marker,
        keepalive=ends[0],
        end=ends[1],
        out=outputs[0],
        err=outputs[1],
        holders=" ".join(map(str, holders)),
        known="1" if known else "",
        output_of=output_of or "",
        excluded=excluded or "",
        wake=wake or "",
        leave=LEAVE_SIGNAL,
        other=OTHER_LEAVE_SIGNAL,
        signal=signal,
        brand=brand or "",
        freeze=" ".join(map(str, freeze)),
        thaw="1" if thaw else "",
        most="" if most is None else most,
        all="",
        unmarked="",
    )
    # grep takes one pattern per line, `case` takes alternatives.
    markers = [shlex.quote(each) for each in marker.splitlines()]
    marked_by_builtins = _MARKED_BY_BUILTINS.replace("@MARKERS@", "|".join(f"*{each}*" for each in markers))
    marked, table = (marked_by_builtins, _TABLE_BY_BUILTINS) if builtins_only else (_MARKED, _TABLE)
    by_proc = _LOOK.replace("@MARKED@", marked).replace("@TABLE@", table)
    by_ps = _LOOK_BY_PS.replace("@MARKED@", _marked_by_ps(markers))
    return f"{head}{_STOPPING if builtins_only else ''}if {_HAS_PROC}; then{by_proc}else{by_ps}fi\n"


def _marked_by_ps(markers: Iterable[str]) -> str:
    """Return text to print the processes with any of some markers, given as words of shell text."""
    patterns = "|".join(f"*{MARKER_VARIABLE}=*{each}*" for each in markers)
    return f'{_SHOW} | while read -r p w; do case $w in {patterns}) echo "$p" ;; esac; done'


def counting_processes(known: int | None) -> str:
    """Return text to print process counts and limits, one pair a line, without a new process.

    Args:
        known: A limit invisible in the target, if there is one.
    """
    return _settings(known=known or "") + _COUNT


def signalling(signal: str, targets: Sequence[int]) -> str:
    """Return text to send a signal to processes, and to process groups, given as negative numbers."""
    return f"kill -s {signal} -- {' '.join(map(str, targets))} 2>/dev/null; :"


def arming_watchdog(call: str, marker: str, patience: float) -> str:
    """Return text for a watchdog: a shell that ends all processes of an environment at the end of its input.

    Args:
        call: The prefix of a builtin.
        marker: The prefix of the environment's markers.
        patience: Seconds to wait first, during which a message may report that only the link has dropped.
    """
    mark = shlex.quote(f"{MARKER_VARIABLE}={marker}")
    shell = shlex.quote(f"{MARKER_VARIABLE}={marker}[^/]*/")  # matches shells, not commands
    wait = f"command -p sleep {plain_number(patience)}\n" if patience else ""  # a fork bomb may leave no room for it
    # Shells come last: two watchdogs would end each other before the rest. They do end a sleep.
    ending = f"""\
if {_HAS_PROC}; then
  shells() {{ command -p grep -zlsx -- {shell} /proc/[0-9]*/environ; }}
  marked() {{
    command -p grep -zlsF -- {mark} /proc/[0-9]*/environ
    command -p grep -ls '^Max file locks .* {brands(environment_of(marker))} ' /proc/[0-9]*/limits
  }}
else
  marked() {{
    {_SHOW} | while read -r p w; do case $w in *{mark}*) w=${{w#*{mark}}}; echo "$p/${{w%% *}}" ;; esac; done
  }}
  shells() {{ marked | while read -r p; do case $p in */*/?*) ;; *) echo "$p" ;; esac; done; }}
fi
ours=
for p in $(shells); do
  p=${{p#/proc/}} p=${{p%%/*}}
  if [ "$p" != $$ ]; then ours="$ours $p"; fi
done 2>/dev/null
{wait}for s in TERM KILL; do
  seen="$$ $ours"
  for p in $(marked); do
    p=${{p#/proc/}} p=${{p%%/*}}
    case " $seen " in *" $p "*) ;; *) seen="$seen $p"; kill -s $s "$p" ;; esac
  done 2>/dev/null
  if [ -n "$ours" ]; then kill -s $s $ours 2>/dev/null; fi
  if [ $s = TERM ]; then command -p sleep 1 || command -p sleep 1; fi
done"""
    # bash runs the EXIT trap also when SIGPIPE ends it: at the close of a stream it still prints to. The shell must
    # live on to its dismissal.
    return f"{call} trap : {SURVIVED} PIPE; {call} trap {shlex.quote(ending)} EXIT\n"


def stopping_watchdogs(marker: str, shells: Iterable[int]) -> str:
    """Return text to end watchdogs of an environment, as its program is still running.

    Args:
        marker: The prefix of the environment's markers.
        shells: The shells. A process with a reused id is left alone.
    """
    mark = shlex.quote(f"{MARKER_VARIABLE}={marker}")
    return f"""\
for p in {" ".join(map(str, shells))}; do
  if command -p grep -qzsF -- {mark} "/proc/$p/environ"; then kill -s KILL "$p"; fi
done 2>/dev/null
"""


def disarming_watchdog(call: str) -> str:
    """Return text to disarm a watchdog, sent before the end of a shell."""
    return f"{call} trap - EXIT\n"


def environment_of(marker: str) -> str:
    """Return the name of a marker's environment; the inner one of nested environments."""
    return marker.rpartition(":")[2].partition("/")[0]


def branding(environment: str, command: int | None = None) -> str:
    """Return text to set a brand, a number, on a shell and all its descendants. No program removes it by accident.

    The brand is a limit of file locks, not enforced by Linux. A hard limit can be lowered, not raised.

    Args:
        environment: The name of the shell's environment.
        command: The number of the command that the shell runs from here on; None is the same for all commands.
    """
    brand = brand_of(environment, command)
    return f"\\command ulimit -x {brand} 2>/dev/null || \\command ulimit -w {brand} 2>/dev/null || :\n"


def brand_of(environment: str, command: int | None = None) -> int:
    """Return the brand. Brands of commands are below the environment's own, and share its first digits."""
    name, _, unique = environment.rpartition("-")
    first = 10**12 + (zlib.crc32(name.encode()) % _NAMES << 32) + zlib.crc32(unique.encode())
    return (first + 1) * BRANDS - 1 if command is None else first * BRANDS + command % (BRANDS - 1)


def brands(environment: str) -> str:
    """Return the pattern of all brands of an environment, in a syntax common to grep and `case`."""
    digits = str(brand_of(environment) // BRANDS)
    return digits + "[0-9]" * (len(str(BRANDS)) - 1)


def without_keepalive(children: Sequence[int], marker: str, keepalive: int) -> str:
    """Return text to print those children of a shell without a keepalive pipe and without a command's marker.

    The text starts no process where there is /proc.

    Args:
        children: Their process ids.
        marker: The shell's own marker, also carried by a fork of the shell that runs no program.
        keepalive: The file descriptor of the keepalive pipe in a command.
    """
    own = f"*{MARKER_VARIABLE}={shlex.quote(marker)}"  # the next character is no digit: variable names begin with none
    return f"""\
for p in {" ".join(map(str, children))}; do
  if ! {_HAS_PROC}; then
    w=$({{ command -p ps -E -ww -o command= -p "$p" || command -p ps eww -o command= -p "$p"; }} 2>/dev/null)
    case $w in
      {own}[0-9]*) ;;
      {own}*) echo "$p" ;;
      *{MARKER_VARIABLE}=*) ;;
      ?*) echo "$p" ;;
    esac
    continue
  fi
  if [ -e "/proc/$p/fd/{keepalive}" ] || [ ! -r "/proc/$p/environ" ]; then continue; fi
  whose=$p
  while IFS= read -r w || [ -n "$w" ]; do
    case $w in
      {own}[0-9]*) whose= ;;
      {own}*) ;;
      *{MARKER_VARIABLE}=*) whose= ;;
    esac
    w=
  done <"/proc/$p/environ"
  echo $whose
done 2>/dev/null
"""


def output_is_held(shell: int, marker: str, ends: tuple[int, int], outputs: tuple[int, int]) -> str:
    """Return text to print `held` if another process can write to a shell's output, else `free`."""
    head = _settings(shell=shell, marker=marker, keepalive=ends[0], end=ends[1], out=outputs[0], err=outputs[1])
    return head + _HOLDERS


def relay_argv(marker: str, word: str) -> list[str]:
    """Return the relay program: makes pipes, and copies their output to its own, see `detach`."""
    return ["/bin/sh", "-c", _RELAY, marker, f"{directory_name(marker)}-pipes", word]


def in_temporary_directory(name: str) -> str:
    """Return a path in the target's temporary directory, as a word of shell text."""
    return f'"${{TMPDIR:-/tmp}}"/{name}'


def making_scratch(name: str) -> str:
    """Return text to make a private directory and print its path."""
    return f'umask 077; d={in_temporary_directory(name)}; mkdir -- "$d" && printf %s "$d"'


# A process in a container of this machine is visible here, but belongs to the container.
THERE_NOW = rf"""
for f in $(command -p grep -lsF {MARKER_VARIABLE}= /proc/[0-9]*/environ); do
  p=${{f%/environ}}
  if [ "$p/ns/pid" -ef /proc/self/ns/pid ]; then
    command -p sed 's|^.*)|stat|' "$p/stat"
    command -p tr '\0' '\n' <"$f" | command -p sed -n 's|^{MARKER_VARIABLE}=|process |p'
  fi
done 2>/dev/null
command -p du -sk -- /tmp/hermes-*/ "${{TMPDIR:-/tmp}}"/hermes-*/ 2>/dev/null | command -p sed 's|^|directory |'
printf 'uptime %s\n' "$(command -p cat /proc/uptime)"
"""
"""Prints the processes and directories of environments outside of containers: `process MARKER` after a line `stat` with
the kernel's fields of the process; `directory KB PATH/`, with a tab between; and `uptime` at the end. One `du` serves
all directories: there may be hundreds, and a caller waits for the answer."""

# Users of the target.

FOUND = "@@user"
"""The first word of the answer's line."""


class SwitchMethod(Enum):
    """A method for a process of the target's default user to become another user."""

    NONE = "none"
    """There is no method."""
    OWN = "own"
    """The process has this user already."""
    ENGINE = "engine"
    """The container engine starts processes as any user."""
    SETPRIV = "setpriv"
    SU = "su"
    SUDO = "sudo"


# Set before the text: $user, a name or a number, and $engine, empty unless the engine can switch users.
_FIND = r"""
pick() {
  while IFS=: read -r name secret uid gid about home shell || [ -n "$name" ]; do
    if [ "$name" = "$user" ] || [ "$uid" = "$user" ]; then return 0; fi
  done
  return 1
}
if ! { command -v getent >/dev/null 2>&1 && pick <<HX_ENTRY
$(getent passwd "$user" 2>/dev/null)
HX_ENTRY
  } && ! { [ -r /etc/passwd ] && pick </etc/passwd; }; then
  case $user in *[!0-9]*) echo "@@user"; exit ;; esac
  name= uid=$user gid=$user home=/ shell=/bin/sh
fi
me=$(command -p id -u)
works() { [ "$("$@" 2>/dev/null </dev/null)" = "$uid" ]; }
way=none groups=--init-groups
if [ -z "$name" ]; then groups=--clear-groups; fi
if [ "$me" = "$uid" ]; then way=own
elif [ -n "$engine" ]; then way=engine
elif [ "$me" = 0 ]; then
  if works setpriv "--reuid=$uid" "--regid=$gid" $groups -- /bin/sh -c 'command -p id -u'; then way=setpriv
  elif [ -n "$name" ] && works su -s /bin/sh "$name" -c 'exec /bin/sh -c "command -p id -u"'; then way=su
  fi
elif works sudo -n -u "${name:-#$uid}" -- /bin/sh -c 'command -p id -u'; then way=sudo
fi
printf '%s %s %s %s\n' "@@user" "$way" "$uid" "$gid"
printf '%s\n' "$name" "$home" "$shell"
"""
# A process may be denied a second open of a pipe, as by a write to /dev/stderr. After this text it is allowed; no other
# process has a path to the pipe.
_OPENED = """\
for n in 0 1 2; do
  if [ -p "/proc/self/fd/$n" ]; then chmod a+rw "/proc/self/fd/$n"; fi
done
unset MAIL XDG_RUNTIME_DIR DBUS_SESSION_BUS_ADDRESS
exec "$@"
"""
_SETTLED = """\
if [ ! -w "${TMPDIR-/}" ]; then unset TMPDIR; fi
exec "$@"
"""


def finding(user: str, *, by_engine: bool) -> str:
    """Return text to find a user, and a method to become this user, tested at once.

    The text prints a line with `FOUND`, the `SwitchMethod`, the user id and the group id, and then lines with the name,
    the home directory and the login shell; `FOUND` alone if there is no such user.

    Args:
        user: The name or the number.
        by_engine: True if the engine can start processes as any user.
    """
    return f"user={shlex.quote(user)} engine={'1' if by_engine else ''}\n{_FIND}"


def becoming(method: SwitchMethod, name: str, uid: int, gid: int, argv: list[str]) -> list[str]:
    """Return a program and its arguments, wrapped to run as a user.

    Args:
        method: The method.
        name: The user's name; empty for a number without a name.
        uid: The user id.
        gid: The group id.
        argv: The program and its arguments.
    """
    if method is SwitchMethod.OWN:
        return argv
    settled = ["/bin/sh", "-c", _SETTLED, "sh", *argv]
    if method is SwitchMethod.ENGINE:
        return settled
    if method is SwitchMethod.SETPRIV:
        groups = "--init-groups" if name else "--clear-groups"
        settled = ["setpriv", f"--reuid={uid}", f"--regid={gid}", groups, "--", *settled]
    elif method is SwitchMethod.SU:
        settled = ["su", "-s", "/bin/sh", name, "-c", f"exec {shlex.join(settled)}"]
    elif method is SwitchMethod.SUDO:
        settled = ["sudo", "-n", "-u", name or f"#{uid}", "--", *settled]
    return ["/bin/sh", "-c", _OPENED, "sh", *settled]
