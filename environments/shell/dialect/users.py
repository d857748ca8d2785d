"""Shell text that finds a user of the target, and the programs that run a shell as one."""

from __future__ import annotations

import shlex
from enum import Enum

FOUND = "@@user"
"""What the line of the answer begins with."""


class Way(Enum):
    """How a process of the target's own user becomes one of another."""

    NONE = "none"
    """There is no way."""
    OWN = "own"
    """It is that user already."""
    ENGINE = "engine"
    """What starts processes in the target can start them as anybody."""
    SETPRIV = "setpriv"
    SU = "su"
    SUDO = "sudo"


# Set in front: $user, which is a name or a number, and $engine, which is empty or says that there need be no way.
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
# Whoever may not open a pipe anew, as what writes to /dev/stderr does, may after this; nobody else has a way to it.
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
    """Return what says who a user is, and which way there is to become that user, tried just now.

    It prints a line of `FOUND`, the `Way` and the numbers of the user and the group, and then lines of the name, the
    home and the login shell; `FOUND` alone if there is no such user.

    Args:
        user: The name or the number.
        by_engine: Whether what starts processes in the target can start them as anybody.
    """
    return f"user={shlex.quote(user)} engine={'1' if by_engine else ''}\n{_FIND}"


def becoming(way: Way, name: str, uid: int, gid: int, argv: list[str]) -> list[str]:
    """Return a program and its arguments so that they are run as a user.

    Args:
        way: How.
        name: The user's name; empty for a number that has none.
        uid: The number.
        gid: That of the group.
        argv: What is to be run.
    """
    if way is Way.OWN:
        return argv
    settled = ["/bin/sh", "-c", _SETTLED, "sh", *argv]
    if way is Way.ENGINE:
        return settled
    if way is Way.SETPRIV:
        groups = "--init-groups" if name else "--clear-groups"
        settled = ["setpriv", f"--reuid={uid}", f"--regid={gid}", groups, "--", *settled]
    elif way is Way.SU:
        settled = ["su", "-s", "/bin/sh", name, "-c", f"exec {shlex.join(settled)}"]
    elif way is Way.SUDO:
        settled = ["sudo", "-n", "-u", name or f"#{uid}", "--", *settled]
    return ["/bin/sh", "-c", _OPENED, "sh", *settled]
