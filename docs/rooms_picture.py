"""Draw the rooms of the package from its imports: `python docs/rooms_picture.py` writes docs/diagrams/rooms.svg.

A room is a folder. The files of `environments/` below the shell are a room, too: the ground floor, with the layers of
import-linter in pyproject.toml. An arrow is an import, unless a path of other arrows stands for the import. Backends
with the same arrows share a box.
"""

from __future__ import annotations

import ast
import re
import textwrap
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[1]
PICTURE = Path(__file__).with_name("diagrams") / "rooms.svg"
TITLE = "The rooms of the package and their imports"
GROUND = "ground floor"
SUBJECTS = {
    "hermes_env": "command line, MCP, asyncio, frameworks",
    "code_execution": "runs a script: stage, start, limit, collect",
    "hermes_tools": "the tools that a script may call",
    "rpc": "carries tool calls: messages, stub, transports",
    "conformance": "the contract as checks",
    "short_commands": "a stream made of short commands and files",
    "pool": "environments started ahead and lent",
    "shell": "sessions, one-shots, processes, files, endings",
    GROUND: "the environment, without a backend",
}
"""The subject of each room. Backends have none."""
WIDTH, BOX, LEFT, LANE, LINE, GAP, PAD = 400, 294, 10, 14, 17, 12, 10
COLOURS = {"hermes_env": "one", "code_execution": "two", "hermes_tools": "three", "rpc": "three"}
STYLE = """
    :root { --back: #ffffff; --edge: #d0d7de; --ink: #1f2328; --soft: #59636e; --line: #6e7781;
            --one: #e6edfb; --two: #e2f3e5; --three: #fdf3d6; --four: #f6e8f8; }
    @media (prefers-color-scheme: dark) {
      :root { --back: #16181d; --edge: #3a3f47; --ink: #e9ecf1; --soft: #a9b2bd; --line: #8d96a0;
              --one: #232f4a; --two: #1f3a28; --three: #40351a; --four: #3b2740; }
    }
    text { font-family: system-ui, -apple-system, "Segoe UI", "Noto Sans", "DejaVu Sans", sans-serif; font-size: 12px;
           fill: var(--soft); }
    .name { font-weight: 700; font-size: 14px; fill: var(--ink); }
    .box { stroke: var(--line); }
    .line { stroke: var(--line); stroke-width: 1.5; fill: none; }
    .tip { fill: var(--line); }
  """


@dataclass(frozen=True)
class Box:
    """A room, or several rooms with the same arrows."""

    rooms: tuple[str, ...]
    targets: frozenset[str]
    lines: tuple[str, ...]

    @property
    def name(self) -> str:
        """The name in a sentence."""
        return ", ".join(self.rooms)

    @property
    def heading(self) -> str:
        """The heading in the picture."""
        (room, *others) = self.rooms
        if others:
            return "backends"
        if room == GROUND:
            return f"environments/, {GROUND}"
        return f"{room}/" if (ROOT / room).is_dir() else f"environments/{room}/"

    @property
    def height(self) -> int:
        """The height in pixels."""
        return 2 * PAD + LINE * (1 + len(self.lines)) - 2


def layers() -> tuple[list[list[str]], list[list[str]]]:
    """Return the layers of pyproject.toml: of the packages, and of `environments`, from the top down."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    packages, inner = (contract["layers"] for contract in contracts if contract["type"] == "layers")
    return [re.findall(r"\w+", layer) for layer in packages], [re.findall(r"\w+", layer) for layer in inner]


def imports_of(tree: ast.AST) -> Iterator[str]:
    """Yield the dotted names of a module's imports, without imports for type checkers."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            yield from (name for other in node.orelse for name in imports_of(other))
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        else:
            yield from imports_of(node)


def room_of(dotted: str, rooms: Mapping[str, int]) -> str | None:
    """Return the room of a module; None for a module of another package."""
    package, _, rest = dotted.partition(".")
    if package != "environments":
        return package if package in rooms else None
    inner = rest.partition(".")[0]
    return inner if inner in rooms else GROUND


def arrows(rooms: Mapping[str, int]) -> dict[str, set[str]]:
    """Return the imported rooms of each room, without rooms that are reachable by other arrows."""
    found: dict[str, set[str]] = {room: set() for room in rooms}
    for package in layers()[0]:
        for file in (file for name in package for file in (ROOT / name).rglob("*.py")):
            here = room_of(".".join(file.relative_to(ROOT).with_suffix("").parts), rooms)
            assert here
            targets = (room_of(name, rooms) for name in imports_of(ast.parse(file.read_text())))
            found[here] |= {target for target in targets if target and target != here}
    for room in sorted(rooms, key=lambda each: -rooms[each]):  # the lowest rooms first: their arrows are complete
        beyond = set().union(*(reached(found, target) for target in found[room])) if found[room] else set()
        found[room] -= beyond
    return found


def reached(found: Mapping[str, set[str]], room: str) -> set[str]:
    """Return all rooms below a room."""
    return found[room].union(*(reached(found, target) for target in found[room]))


def boxes() -> list[Box]:
    """Return the boxes from the top down."""
    packages, inner = layers()
    folders = [name for layer in inner for name in layer if (ROOT / "environments" / name).is_dir()]
    base = next(index for index, layer in enumerate(inner) if "shell" in layer)
    above = [name for layer in inner[: base + 1] for name in layer if name in folders]
    ordered = [name for layer in packages for name in layer if name != "environments"]
    rooms = {name: index for index, name in enumerate([*ordered, *above, GROUND])}
    found = arrows(rooms)
    shared: dict[frozenset[str], list[str]] = {}
    for name in above:
        if name not in SUBJECTS:
            shared.setdefault(frozenset(found[name]), []).append(name)
    drawn = [Box((name,), frozenset(found[name]), (SUBJECTS[name],)) for name in ordered]
    backends = [Box(tuple(names), targets, (", ".join(names),)) for targets, names in shared.items()]
    rest = [Box((name,), frozenset(found[name]), (SUBJECTS[name],)) for name in above if name in SUBJECTS]
    floor = [line for layer in inner[base + 1 :] for line in _wrapped(layer)]
    ground = Box((GROUND,), frozenset(found[GROUND]), (SUBJECTS[GROUND], *floor))
    # A backend is drawn above its base room.
    over: list[Box] = []
    for box in rest:
        over += [each for each in backends if box.name in each.targets]
        over.append(box)
    assert len(over) == len(rest) + len(backends)
    return [*drawn, *over, ground]


def _wrapped(layer: list[str]) -> list[str]:
    return textwrap.wrap("· " + ", ".join(sorted(layer)), 44, subsequent_indent="  ")


def description(drawn: list[Box]) -> str:
    """Return the picture in words."""
    said = [f"{box.name} to {' and '.join(sorted(box.targets))}." for box in drawn if box.targets]
    return " ".join(["Boxes from the top down, with arrows for imports. From", *said])


def picture() -> str:
    """Return the drawing as SVG."""
    drawn = boxes()
    tops, y = {}, 12
    for box in drawn:
        tops[box] = y
        y += box.height + GAP
    height = y - GAP + 12
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        'role="img" aria-labelledby="title desc">',
        f'  <title id="title">{TITLE}</title>',
        f'  <desc id="desc">{escape(description(drawn))}</desc>',
        f"  <style>{STYLE}</style>",
        f'  <rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="10" fill="var(--back)" '
        'stroke="var(--edge)"/>',
    ]
    aims = [box for box in drawn if any(set(box.rooms) & other.targets for other in drawn)]
    for index, aim in enumerate(aims):
        x = LEFT + BOX + LANE * (index + 1)
        sources = [box for box in drawn if set(aim.rooms) & box.targets]
        end = tops[aim] + 18
        for source in sources:
            start = tops[source] + 32 + 8 * sorted(source.targets).index(aim.name)
            parts.append(f'  <path class="line" d="M{LEFT + BOX} {start:g}H{x}V{end:g}H{LEFT + BOX + 7}"/>')
        parts.append(f'  <path class="tip" d="M{LEFT + BOX + 1} {end:g}l8 -4.5v9z"/>')
    for box in drawn:
        colour = COLOURS.get(box.name, "four")
        parts.append(
            f'  <rect class="box" x="{LEFT}" y="{tops[box]}" width="{BOX}" height="{box.height}" rx="8" '
            f'fill="var(--{colour})"/>'
        )
        parts.append(f'  <text class="name" x="{LEFT + PAD}" y="{tops[box] + 23}">{box.heading}</text>')
        for number, line in enumerate(box.lines, 1):
            parts.append(f'  <text x="{LEFT + PAD}" y="{tops[box] + 23 + LINE * number}">{escape(line)}</text>')
    return "\n".join([*parts, "</svg>", ""])


if __name__ == "__main__":
    PICTURE.write_text(picture())
