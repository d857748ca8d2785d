"""Counts out-of-memory kills by the kernel, from the files of a cgroup."""

from __future__ import annotations

from environments.shell.process_table import is_number

FILES = ("/sys/fs/cgroup/memory/memory.oom_control", "/sys/fs/cgroup/memory.events")
"""The files in a container, with cgroups of version 1 and 2."""
_FIELD = "oom_kill"


def counting_kills() -> str:
    """Return shell text to print the files by builtins, as little memory may be left."""
    reading = 'while read -r name count; do echo "$name $count"; done <"$file"'
    return f'for file in {" ".join(FILES)}; do if [ -r "$file" ]; then {reading}; fi; done'


def kills(text: str) -> int:
    """Return the count of killed processes, parsed from the files' text; 0 if missing."""
    found = dict(line.split(" ", 1) for line in text.splitlines() if " " in line)
    count = found.get(_FIELD, "0")
    return int(count) if is_number(count) else 0
