"""The page docs/performance.md: tables between its marks, and charts beside the page."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.findings import Findings
from benchmarks.machine import machine_text
from benchmarks.marked_page import DOCS, MarkedPage
from benchmarks.table import NONE, Row, ratio_text, seconds_text

PERFORMANCE = MarkedPage("performance.md", "performance")
BACKENDS = ("local", "Docker", "SSH", "Singularity")
ON_EACH = {
    'execute("true")': ('execute("true"), {}',),
    "a tool call": ("tool call, {}, socket", "tool call, {}, relay"),
    "a tool call, by files": ("tool call, {}, file queue",),
    'execute_code("print(1)")': ('execute_code("print(1)"), {}',),
    "execute_code with a tool call": ("execute_code with a tool call, {}",),
    'PythonSession.execute("x = 1")': ('session.execute("x = 1"), {}',),
    "read_file of 6 KB": ('read_file("read.txt"), {}',),
    "write_file of 2 KB": ('write_file("new.txt", "..."), {}',),
    "search_files in a file": ('search_files("line 77 "), {}',),
    "patch of one line": ('patch("patched.txt", "old", "new"), {}',),
    "put_file of 100 MB": ("put_file of 100 MB, {}",),
    "get_file of 100 MB": ("get_file of 100 MB, {}",),
}
"""The lines of the table by backend, each with the names of its rows; {} is the backend."""
ON_ONE = (
    "import and a first command, local",
    'execute("true"), state reported, local',
    "commands of 200 at once, each, awaited in asyncio, local",
    "make 200 and run a command in each, local",
    "output of 1 GB, local",
    "create, first command, cleanup, Docker",
    "first command from a pool, Docker",
    'execute("true"), Docker over SSH, 40 ms away',
    'execute("true"), Modal, 30 ms away',
    'execute("true"), Daytona, 30 ms away',
)
"""The rows of the table of other operations. `make bench` prints further rows."""
_CALLED = re.compile(r"""[\w.]+\("[^|]*?"\)|\w*execute_\w+|(?:read|write|search|put|get)_files?""")


def write(findings: Findings, docs: Path = DOCS) -> None:
    """Write the page, see `MarkedPage.write`."""
    PERFORMANCE.write(_parts(findings), findings.charts, findings.to_json(), docs)


def read(docs: Path = DOCS) -> Findings:
    """Return the findings behind the page."""
    return Findings.of_json(PERFORMANCE.numbers(docs))


def render(text: str, findings: Findings) -> str:
    """Return the page with the findings between its marks, see `MarkedPage.render`."""
    return PERFORMANCE.render(text, _parts(findings), findings.charts)


def _parts(findings: Findings) -> dict[str, str]:
    rows = {row.what: row for row in findings.rows}
    return {
        "machine": _measured_on(findings),
        "backends": _by_backend(rows),
        "more": _on_one(rows),
        "beside": _beside(rows),
        "missing": _missing(findings),
    }


def _measured_on(findings: Findings) -> str:
    return (
        f"Measured on {findings.date}: {machine_text(findings.machine)}. Before it began, {findings.load:.1f} "
        f"processes wanted a core; it took {findings.seconds / 60:.0f} minutes."
    )


def _by_backend(rows: Mapping[str, Row]) -> str:
    lines = [_line("", *BACKENDS), "|---|" + "---:|" * len(BACKENDS)]
    for what, names in ON_EACH.items():
        found = [_found(rows, *(name.format(backend) for name in names)) for backend in BACKENDS]
        lines.append(_line(_code(what), *(_times_raw(row) for row in found)))
    return "\n".join(lines)


def _on_one(rows: Mapping[str, Row]) -> str:
    lines = [_line("", "raw", "ours", "ours/raw", "the raw cost"), "|---|---:|---:|---:|---|"]
    for row in (rows[what] for what in ON_ONE if what in rows):
        lines.append(_line(_code(row.what), *_medians(row), ratio_text(row.ratio), row.raw_is.partition(";")[0]))
    return "\n".join(lines)


def _beside(rows: Mapping[str, Row]) -> str:
    lines = [_line("", "ours", "beside it"), "|---|---:|---|"]
    for names in ON_EACH.values():
        for backend in BACKENDS:
            row = _found(rows, *(name.format(backend) for name in names))
            lines += _beside_one(row) if row else []
    for what in ON_ONE:
        lines += _beside_one(rows[what]) if what in rows else []
    return "\n".join(lines)


def _beside_one(row: Row) -> list[str]:
    """Return a row's line with other packages and clients, without programs in a shell of the target."""
    others = [
        f"{name.rpartition(' ')[0] if name[-1].isdigit() else name} {seconds_text(times.median)}"
        for name, times in row.beside.items()
        if "in a bash there" not in name
    ]
    ours = seconds_text(row.ours.median if row.ours else None)
    return [_line(_code(row.what), ours, ", ".join(others))] if others else []


def _missing(findings: Findings) -> str:
    """Return the versions of other packages, and the reasons for missing measurements."""
    names = {name for row in findings.rows for name in row.beside if name[-1].isdigit()}
    said = [f"Versions: {', '.join(sorted(names))}."] if names else []
    for row in findings.rows:
        said += [] if row.ours else [f"- {_code(row.what)}: {row.note}"]
        said += [f"- {_code(row.what)}, {name}: {why}" for name, why in row.missing.items()]
    return "\n".join([*said[:1], *([""] if said[1:] else []), *said[1:]])


def _found(rows: Mapping[str, Row], *names: str) -> Row | None:
    return next((rows[name] for name in names if name in rows), None)


def _medians(row: Row) -> Sequence[str]:
    return [seconds_text(times.median if times else None) for times in (row.raw, row.ours)]


def _times_raw(row: Row | None) -> str:
    """Return our median, and the median as a multiple of the raw cost, such as `2 ms` and `4x 0.5 ms`."""
    if row is None or row.raw is None or row.ours is None:
        return NONE
    raw, ours = _medians(row)
    return f"{ours}<br>{ratio_text(row.ratio)} {raw}"


def _line(first: str, *cells: str) -> str:
    """Return a line of a table, with no break between a number and its unit or factor."""
    kept = (re.sub(r"(?<=\d) (?=m?s\b)|(?<=x) (?=\d)", "&nbsp;", cell) for cell in cells)
    return f"| {' | '.join([first, *kept])} |"


def _code(what: str) -> str:
    """Return a row's name with the first call as code."""
    return _CALLED.sub(lambda found: f"`{found[0]}`", what, count=1)
