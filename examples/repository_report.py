"""A report on this repository: what `make run` runs, as `hermes-env run examples/repository_report.py`.

The script makes some forty tool calls. Only the output is returned.
"""

from __future__ import annotations

import ast

from hermes_tools import read_file, search_files, terminal

PACKAGES = ("environments", "rpc", "hermes_tools", "code_execution", "hermes_env", "tests", "benchmarks", "examples")
LARGEST = 8


def matching_lines(pattern: str, package: str) -> dict[str, int]:
    """Count the matching lines of each Python file of a package."""
    found = search_files(pattern, path=package, file_glob="*.py", output_mode="count", limit=1000)
    return {match["path"]: match["count"] for match in found.get("matches", [])}


def functions_of(path: str) -> list[tuple[int, str]]:
    """List the functions of a file, each with its length in lines."""
    numbered = read_file(path, limit=5000)["content"].splitlines()
    source = "\n".join(line.partition("|")[2] for line in numbered)
    functions = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef))
    last = {node: node.end_lineno or node.lineno for node in functions}
    return [(end - node.lineno + 1, f"{node.name}  {path}:{node.lineno}") for node, end in last.items()]


def print_largest(title: str, counted: list[tuple[int, str]]) -> None:
    print(f"\n{title}")
    for count, name in sorted(counted, reverse=True)[:LARGEST]:
        print(f"{count:>8}  {name}")


def print_row(name: str, *cells: object) -> None:
    print(f"{name:<16}" + "".join(f"{cell:>11}" for cell in cells))


print_row("package", "files", "lines", "functions", "tests")
lines_of: dict[str, int] = {}
rows = []
for package in PACKAGES:
    lines = matching_lines("^", package)
    functions = matching_lines(r"^\s*(async )?def ", package)
    tests = matching_lines(r"^\s*(async )?def test_", package)
    rows.append([len(lines), *(sum(counts.values()) for counts in (lines, functions, tests))])
    print_row(package, *rows[-1])
    lines_of.update(lines)
print_row("together", *(sum(row[column] for row in rows) for column in range(4)))

largest = sorted(lines_of, key=lines_of.__getitem__, reverse=True)[:LARGEST]
print_largest("Largest files, in lines", [(lines_of[path], path) for path in largest])
print_largest("Longest functions in them, in lines", [found for path in largest for found in functions_of(path)])

notes = sum(sum(matching_lines("# (TODO|FIXME)", package).values()) for package in PACKAGES)
commits = terminal("git log --oneline 2>/dev/null | wc -l")["output"].strip()
print(f"\n{notes} notes of unfinished work, {commits} commits")
