"""Conformance checks on this machine without /proc, pidfd, epoll and real-time signals, as on macOS.

/proc is hidden in a mount namespace. `ps` reads /proc here, and gets a namespace of its own. /dev/fd stays, as macOS
has /dev/fd.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PARTS = 8
_NAMESPACE = r"""
set -e
place=$1 part=$2 parts=$3 python=$4 program=$5
cp "$(command -v ps)" "$place/real"
mkdir "$place/proc" "$place/dev" "$place/tmp"
export TMPDIR="$place/tmp"
mount --bind /proc "$place/proc"
printf '#!/bin/sh\nexec unshare -m sh -c '\''mount --bind %s/proc /proc && exec %s/real "$@"'\'' ps "$@"\n' \
  "$place" "$place" >"$place/ps"
chmod +x "$place/ps"
mount --bind "$place/ps" "$(command -v ps)"
mount -t tmpfs -o mode=755 none "$place/dev"
cd "$place/dev"
touch null zero full random urandom tty
mkdir pts shm
for name in *; do mount --bind "/dev/$name" "$name"; done
cd "$OLDPWD"
ln -s pts/ptmx "$place/dev/ptmx"
ln -s "$place/proc/self/fd" "$place/dev/fd"
mount --rbind "$place/dev" /dev
mount -t tmpfs none /proc
exec "$python" -c "$program" "$part" "$parts"
"""
_PROGRAM = r"""
import os, select, sys

del os.pidfd_open, select.epoll
part, parts = map(int, sys.argv[1:])

from environments import create_environment
from environments.conformance import CHECKS, Subject, run_checks
from environments.shell.dialect import base, commands
from code_execution import execute_code

base.LEAVE_SIGNAL = commands.LEAVE_SIGNAL = 70  # no real-time signal of this machine either

# These read /proc themselves, or need a `ps` for another user.
BY_PROC = {
    "what_cannot_be_read_or_written_says_why",
    "what_a_command_reads_is_in_no_file_any_more",
    "the_beginning_of_a_file_is_read",
    "nothing_is_left_here",
    "nothing_of_another_user_outlasts_a_time_out_or_the_end",
    "unread_output_takes_no_memory",
    "one_endless_line_takes_no_memory",
}
assert BY_PROC <= {check.name for check in CHECKS} and not os.listdir("/proc")
subject = Subject(lambda **settings: create_environment("local", **settings))
checks = [check for check in CHECKS if check.name not in BY_PROC][part::parts]
failed = 0
for check in checks:
    try:
        check.run(subject)
    except Exception as error:
        failed += 1
        print(f"{check.name}: {type(error).__name__}: {error}")
subject.close()
with create_environment("local") as env:
    result = execute_code("from hermes_tools import add; print(add(1, 2))", env=env, tools={"add": lambda a, b: a + b})
    assert result.output == "3\n", result
left = [name for name in os.listdir(os.environ["TMPDIR"]) if name.endswith("-keepalive")]
print(f"{len(checks)} checks, {failed} failed, left: {left}")
"""


@pytest.mark.parametrize("part", range(PARTS))
def test_the_contract_holds_by_portable_ways(part: int, tmp_path: Path) -> None:
    unshare = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-Urm"]
    place = tmp_path / "place"
    place.mkdir()
    argv = [*unshare, "sh", "-c", _NAMESPACE, "sh", str(place), str(part), str(PARTS), sys.executable, _PROGRAM]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=600)
    assert "checks, 0 failed, left: []" in done.stdout, f"{done.stdout}\n{done.stderr}"
