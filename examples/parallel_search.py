"""Tools called from several threads at once: `hermes-env run examples/parallel_search.py WORD [WORD...]`.

Each thread gets the answers to its own calls. Searching and reading run side by side; `terminal` runs one command at a
time, because all of its commands share one session.
"""

from __future__ import annotations

import sys
import time
from concurrent.futures import ThreadPoolExecutor

from hermes_tools import read_file, search_files

WORDS = sys.argv[1:] or ["EnvironmentLostError", "MARKER_VARIABLE", "ThreadPoolExecutor", "UnsupportedError"]
FOLDERS = ("environments", "rpc", "hermes_tools", "code_execution", "hermes_env", "tests", "examples")


def search(folder: str) -> list[tuple[str, str, int]]:
    """Find the words in a folder, as (word, path, line)."""
    found = search_files(r"\b(" + "|".join(WORDS) + r")\b", path=folder, file_glob="*.py", limit=1000)
    if "error" in found:
        raise SystemExit(found["error"])
    return [
        (word, match["path"], match["line"]) for match in found["matches"] for word in WORDS if word in match["content"]
    ]


def line_of(path: str, line: int) -> str:
    """Read a line of a file."""
    return read_file(path, offset=line, limit=1)["content"].partition("|")[2].strip()


began = time.monotonic()
with ThreadPoolExecutor(len(FOLDERS)) as threads:
    uses = [use for found in threads.map(search, FOLDERS) for use in found]
    firsts = {word: (path, line) for word, path, line in reversed(uses)}
    lines = {word: threads.submit(line_of, *place) for word, place in firsts.items()}
for word in WORDS:
    files = [path for used, path, _ in uses if used == word]
    print(f"{word}: {len(files)} lines in {len(set(files))} files")
    if word in firsts:
        print("    {}:{}: {}".format(*firsts[word], lines[word].result()))
print(f"{len(FOLDERS) + len(lines)} calls in {time.monotonic() - began:.2f} s")
