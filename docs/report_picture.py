"""Take docs/report.png, a picture of a script's report: `python docs/report_picture.py`.

The script runs in a container. This needs Docker and Chromium; TERMINAL_DOCKER_IMAGE is the image.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

PICTURE = Path(__file__).with_name("report.png")
SCRIPT = '''
"""Check a project: its files, its style, its tests."""

from concurrent.futures import ThreadPoolExecutor

from hermes_tools import read_file, search_files, terminal, write_file

write_file("project/area.py", "def area(width, height):\\n    return width * height\\n")
write_file("project/test_area.py", "from area import area\\n\\nassert area(3, 4) == 12\\n")
print(search_files(r"^def ", path="project")["total_count"], "functions")
print(read_file("project/area.py")["content"])
checks = [
    "sleep 0.3; wc -l project/*.py",
    "python3 -m compileall project",
    "(cd project && python3 test_area.py && sleep 0.6)",
]
with ThreadPoolExecutor() as pool:
    for check, result in zip(checks, pool.map(terminal, checks)):
        print(check, "->", result["exit_code"])
print(read_file("project/notes.md"))
print(terminal("python3 -c 'import project.missing'")["output"])
'''.lstrip()


def main() -> None:
    """Run the script, make its report, and take the picture."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "check_project.py").write_text(SCRIPT)
        command_line = str(Path(sys.executable).with_name("hermes-env"))
        run = ["run", "--backend", "docker", "--cwd", "/root", "--record", "check_project.jsonl", "check_project.py"]
        for words in (run, ["report", "check_project.jsonl"]):
            subprocess.run([command_line, *words], cwd=folder, check=True)
        with sync_playwright() as playwright:
            program = os.environ.get("CHROMIUM", "/usr/bin/chromium")
            browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
            page = browser.new_page(viewport={"width": 1280, "height": 680}, device_scale_factor=2)
            page.goto((Path(folder) / "check_project.html").as_uri())
            _open_one_that_waited(page)
            page.screenshot(path=PICTURE)
            browser.close()


def _open_one_that_waited(page: Page) -> None:
    rows = page.get_by_role("row").filter(has_text="compileall")
    rows.first.click()
    page.mouse.move(1, 1)
    page.wait_for_timeout(200)


if __name__ == "__main__":
    main()
