"""Shell text to keep a process in the target and to move its bytes, in short commands that are safe to repeat.

Each process has a private directory:

    in out err     named pipes for the standard streams
    spool1 spool2  output; two `cat` copy from the pipes to these files until the end of the process
    pids           process ids of the supervisor, of the holder of the input's open end, and of the two `cat`
    pid            process id of the process
    rc             exit code, after the end
    w1, w2, ...    claim on each piece of input: the command that creates the directory delivers the piece

The supervisor is detached: neither a time-out of the service nor a dropped call reaches the process.
"""

from __future__ import annotations

import base64
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

INLINE = 192 * 1024
"""Bytes of output that fit into the answer, as base64. Longer output is fetched as a file."""
PIECE = 4 * 1024 * 1024
"""Bytes of output in one fetch."""

MAX_UNREAD = 8
"""Pieces of input that may wait unread in the target: back-pressure."""

GONE, LOST, FAILED, FULL = "@@gone", "@@lost", "@@failed", "@@full"
ANSWER, CHANNEL_1, CHANNEL_2, END = "@@answer", "@@1", "@@2", "@@end"

# A background process of a shell ignores SIGINT and SIGQUIT, and its children inherit that.
_SUPERVISE = r"""
d=$0 mask=$1
shift
mkfifo -m 600 "$d/in" "$d/out" "$d/err" || exit 1
exec 3<>"$d/in" 4<>"$d/out" 5<>"$d/err"
sleep 2147483647 8>"$d/in" 3>&- 4>&- 5>&- & holder=$!
cat <"$d/out" >>"$d/spool1" 3>&- 4>&- 5>&- & out=$!
cat <"$d/err" >>"$d/spool2" 3>&- 4>&- 5>&- & err=$!
exec 6<"$d/in" 3>&-
echo $$ $holder $out $err >"$d/pids.part" && mv "$d/pids.part" "$d/pids"
if env --default-signal true 2>/dev/null; then set -- env --default-signal "$@"; fi
sh -c 'echo $$ >"$0/pid"; umask "$1"; shift; exec "$@"' "$d" "$mask" "$@" <&6 >"$d/out" 2>"$d/err" 4>&- 5>&- 6>&-
echo $? >"$d/rc.part" && mv "$d/rc.part" "$d/rc"
kill $holder
"""
_LAUNCH = r"""
if mkdir -m 700 "$d" 2>/dev/null; then
  : >"$d/spool1"; : >"$d/spool2"
  if command -v setsid >/dev/null 2>&1; then detached=setsid; else detached=; fi
  $detached sh -c "$supervise" "$d" "$mask" {argv} </dev/null >/dev/null 2>"$d/why" &
fi
i=0
while [ ! -e "$d/pids" ] && [ $i -lt 1000 ]; do pause 0.01; i=$((i+1)); done
if [ ! -e "$d/pids" ]; then echo {failed}; cat "$d/why"; exit; fi
"""
_BEGIN = r"""
mask=$(umask)
umask 077
pause() { sleep "$1" 2>/dev/null || sleep 1; }
"""
# The offset of a `cat` in its spool is the size of the spool. Reading the offset starts no process.
_LOOK = r"""
size() {
  n=
  { read -r word n <"/proc/$2/fdinfo/1"; } 2>/dev/null
  case $n in ''|*[!0-9]*) n=$(wc -c <"$d/spool$1"); n=$((n)) ;; esac
}
sizes() { size 1 $p1; n1=$n; size 2 $p2; n2=$n; }
gone() {
  { read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 0
  case ${stat##*) } in [ZX]*) return 0 ;; esac
  return 1
}
if ! read -r sup holder p1 p2 2>/dev/null <"$d/pids"; then echo @@gone; exit; fi
"""
_DELIVER = r"""
w=$d/w$number last=$d/w$((number-1))
i=0
while [ ! -e "$w" ] && [ -e "$d/w$((number-most))/piece" ] && [ ! -e "$d/rc" ] && ! gone $sup; do
  if [ $i -ge 50 ]; then echo @@full; exit; fi
  pause 0.02; i=$((i+1))
done
if mkdir "$w" 2>/dev/null; then
  if [ -e "$d/rc" ] || gone $sup; then : >"$w/gone"
  else
    {bring}
    : >"$w/sent"
    (
      while [ -e "$last/piece" ]; do pause 0.01; done
      cat "$w/piece" >"$d/in"
      rm -rf "$w/piece" "$last"
    ) </dev/null >/dev/null 2>&1 &
  fi
else
  i=0
  while [ ! -e "$w/sent" ] && [ ! -e "$w/gone" ] && [ $i -lt 500 ]; do pause 0.01; i=$((i+1)); done
fi
if [ -e "$w/gone" ]; then echo @@gone; exit; fi
if [ ! -e "$w/sent" ]; then echo @@lost; exit; fi
"""
_WAIT = r"""
t=0 i=0 seen=-1 ended=
while :; do
  if [ -e "$d/rc" ] || gone $sup; then ended=1; fi
  sizes; all=$((n1+n2))
  if [ -n "$ended" ]; then break; fi
  if [ $all -gt $((o1+o2)) ] && { [ $quiet = 0 ] || [ $all = $seen ]; }; then break; fi
  if [ $t -ge $limit ]; then break; fi
  step=$quiet
  if [ $all = $((o1+o2)) ]; then
    i=$((i+1))
    if [ $i -lt 10 ]; then step=2; elif [ $i -lt 30 ]; then step=20; else step=50; fi
    if [ $t -gt 5000 ]; then step=100; fi
  fi
  seen=$all
  pause "$((step/1000)).$(( (step/100)%10 ))$(( (step/10)%10 ))$((step%10))"
  t=$((t+step))
done
code=
if [ -n "$ended" ]; then
  i=0
  while ! { gone $p1 && gone $p2; } && [ $i -lt 20 ]; do pause 0.01; i=$((i+1)); done
  n1=$(wc -c <"$d/spool1") n2=$(wc -c <"$d/spool2")
  n1=$((n1)) n2=$((n2))
  if [ -e "$d/rc" ]; then read -r code <"$d/rc"; fi
fi
"""
_FETCH = r"""
fetch() {
  m=$(($3-$2))
  if [ $m -le 0 ]; then return; fi
  if [ $m -le $inline ]; then tail -c +$(($2+1)) "$d/spool$1" 2>/dev/null | head -c $m | base64; return; fi
  if [ $m -gt $piece ]; then m=$piece; fi
  rm -f "$d/part$1".*
  tail -c +$(($2+1)) "$d/spool$1" | head -c $m >"$d/part$1.$2.$m"
}
if [ $keep1 -gt 0 ] && [ $((n1-o1)) -gt $keep1 ]; then o1=$((n1-keep1)); fi
if [ $keep2 -gt 0 ] && [ $((n2-o2)) -gt $keep2 ]; then o2=$((n2-keep2)); fi
if [ $spent1 -gt 0 ]; then fallocate -p -o 0 -l $spent1 "$d/spool1" 2>/dev/null; fi
if [ $spent2 -gt 0 ]; then fallocate -p -o 0 -l $spent2 "$d/spool2" 2>/dev/null; fi
echo "@@answer ${ended:-0} $o1 $n1 $o2 $n2 $code"
echo @@1; fetch 1 $o1 $n1
echo @@2; fetch 2 $o2 $n2
echo @@end
"""
_DISCARD = r"""
if read -r sup holder p1 p2 2>/dev/null <"$d/pids"; then
  if [ ! -e "$d/rc" ] && read -r pid 2>/dev/null <"$d/pid"; then kill -9 $pid 2>/dev/null; fi
  kill $holder $p1 $p2 2>/dev/null
fi
mv "$d" "$d.gone" 2>/dev/null  # nothing can be added to it any more
rm -rf "$d.gone" "$d".piece*
"""

# Between two pieces, only the holder keeps the input open.
_CLOSE_INPUT = r"""
left() { for f in "$d"/w*/piece; do if [ -e "$f" ]; then return 0; fi; done; return 1; }
if read -r sup holder rest 2>/dev/null <"$d/pids"; then
  ( while left; do sleep 0.02 || sleep 1; done; kill $holder ) </dev/null >/dev/null 2>&1 &
fi
"""


@dataclass(frozen=True, slots=True)
class InputPiece:
    """A piece of input."""

    number: int
    """Number of the piece: from 1, without gaps."""
    data: bytes
    file: str = ""
    """File of the target with the data; empty if the command has the data."""

    def text(self) -> str:
        """Return shell text to deliver the piece exactly once in any number of runs, or to answer FULL."""
        if self.file:
            store = f'mv -f {shlex.quote(self.file)} "$w/piece"'
        else:
            store = f'echo {base64.b64encode(self.data).decode()} | base64 -d >"$w/piece"'
        return f"number={self.number} most={MAX_UNREAD}\n{_DELIVER.replace('{bring}', store)}"


@dataclass(frozen=True, slots=True)
class OutputRequest:
    """A request for output."""

    offsets: tuple[int, int]
    """Bytes of each channel already received."""
    limit: float
    """Maximum seconds to wait for new output or the end of the process."""
    quiet: float = 0.0
    """Seconds of silence before the answer: collects many small pieces in one answer."""
    keep: tuple[int, int] = (0, 0)
    """Bytes wanted at the end of each channel, without the middle; 0 wants all."""
    spent: tuple[int, int] = (0, 0)
    """Bytes at the beginning of each channel whose disk space may be freed."""
    inline: int = INLINE
    """Maximum bytes of output in the answer; -1 in a target without base64."""

    def text(self) -> str:
        """Return shell text to wait for output and print it."""
        return (
            f"limit={self.limit * 1000:.0f} quiet={self.quiet * 1000:.0f} inline={self.inline} piece={PIECE} "
            f"keep1={self.keep[0]} keep2={self.keep[1]} spent1={self.spent[0]} spent2={self.spent[1]}{_WAIT}{_FETCH}"
        )


def exchange(
    directory: str, argv: Sequence[str] | None, piece: InputPiece | None, request: OutputRequest | None
) -> str:
    """Return the text of one round trip.

    Args:
        directory: The process's directory, in an existing one.
        argv: The program, until its start is confirmed. Any number of runs start it once.
        piece: The input to deliver first.
        request: The output to request then; None only delivers.
    """
    text = _BEGIN + f"d={shlex.quote(directory)}\n"
    if argv:
        launch = _LAUNCH.replace("{argv}", shlex.join(argv)).replace("{failed}", FAILED)
        text += f"supervise={shlex.quote(_SUPERVISE)}\n{launch}"
    o1, o2 = request.offsets if request else (0, 0)
    text += f"{_LOOK}o1={o1} o2={o2}\n"
    text += piece.text() if piece else ""
    return text + (request.text() if request else "echo @@end\n")


def discard_text(directory: str) -> str:
    """Return text to kill the process, but not its children, and to remove its directory."""
    return f"d={shlex.quote(directory)}{_DISCARD}"


def close_input_text(directory: str) -> str:
    """Return text to send end of file to the process, after all delivered input."""
    return f"d={shlex.quote(directory)}{_CLOSE_INPUT}"
