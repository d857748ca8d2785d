"""Draw docs/picture.svg, the README's terminal, from the output of commands: `make picture`.

Each command runs on a terminal of its own, in a container. The terminal's contents are drawn as text. This needs
Docker; TERMINAL_DOCKER_IMAGE is the image of the containers.
"""

from __future__ import annotations

import argparse
import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
from pathlib import Path
from xml.sax.saxutils import escape

from rich.console import Console
from rich.syntax import Syntax
from rich.text import Text

PICTURE = Path(__file__).with_name("picture.svg")
TITLE = "A terminal: a command in a container, a script that calls its tools there, and a file that is piped into one"
COLUMNS = 78
SCRIPT = r"""
import os
from hermes_tools import search_files, terminal

library = os.path.dirname(os.__file__)
for name in ("socket", "random"):
    found = search_files(rf"import {name}\b", path=library, file_glob="*.py")
    print(name, "is imported", found["total_count"], "times")
files = terminal(f"find {library} -name '*.py'")["output"].splitlines()
print("in the", len(files), "files of Python's library")
""".lstrip()
COMMANDS = (
    "hermes-env exec -b docker -- 'echo hello from a container, by $(whoami)'",
    "cat imports.py",
    "hermes-env run -b docker imports.py",
    "tar c imports.py | hermes-env exec -b docker -- 'tar x && wc -l *.py'",
)
FORMAT = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {{width}} {{height}}" role="img" aria-labelledby="title desc">
  <title id="title">{title}</title>
  <desc id="desc">{said}</desc>
  <style>
    .{{unique_id}}-matrix {{{{
      font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace;
      font-size: {{char_height}}px; line-height: {{line_height}}px;
    }}}}
    .{{unique_id}}-title {{{{ font: bold 18px system-ui, sans-serif; }}}}
    {{styles}}
  </style>
  <defs>
    <clipPath id="{{unique_id}}-clip-terminal">
      <rect width="{{terminal_width}}" height="{{terminal_height}}"/>
    </clipPath>
    {{lines}}
  </defs>
  {{chrome}}
  <g transform="translate({{terminal_x}}, {{terminal_y}})" clip-path="url(#{{unique_id}}-clip-terminal)">
    {{backgrounds}}
    <g class="{{unique_id}}-matrix">{{matrix}}</g>
  </g>
</svg>
"""
"""A picture without the network: rich's own format loads a font."""

_GONE = re.compile(r"\x1b\[\?25l.*?\x1b\[\?25h(\s*\x1b\[1A)?(\r?\x1b\[2K)?", re.DOTALL)
"""The progress bar of a long start, removed at the end. The cursor is hidden meanwhile."""


def shown(command: str, folder: Path) -> str:
    """Run a command on a terminal, and return the terminal's output."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
    env = {**os.environ, "HERMES_HOME": str(folder), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    env |= {"TERM": "xterm-256color", "TERMINAL_ENV": "local"}
    with subprocess.Popen(["bash", "-c", command], cwd=folder, env=env, stdin=theirs, stdout=theirs, stderr=theirs):
        os.close(theirs)
        pieces = []
        try:
            while piece := os.read(ours, 65536):
                pieces.append(piece)
        except OSError:  # EIO: the last process has closed the terminal
            pass
        finally:
            os.close(ours)
    return _GONE.sub("", b"".join(pieces).decode().replace("\r\n", "\n"))


def picture() -> str:
    """Run the commands, and return the picture."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "imports.py").write_text(SCRIPT)
        for command in COMMANDS:
            console.print(Text.assemble(("$ ", "bold green"), (command, "bold")))
            if command.startswith("cat "):
                console.print(Syntax(SCRIPT.rstrip(), "python", theme="monokai", background_color="default"))
            else:
                console.print(Text.from_ansi(shown(command, folder)), end="")
            console.print()
    said = console.export_text(clear=False).strip()
    form = FORMAT.format(title=escape(TITLE), said=escape(said).replace("{", "{{").replace("}", "}}"))
    lines = console.export_svg(title="hermes-env", code_format=form, unique_id="terminal").splitlines()
    return "\n".join(line.rstrip() for line in lines) + "\n"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", type=Path, default=PICTURE, help="the file to write")
    parser.parse_args().to.write_text(picture())
