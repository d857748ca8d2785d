"""A small task, in a place with images: a trial writes to /logs, /tests and /solution."""

from __future__ import annotations

from pathlib import Path

import pytest
from place import PLACE

TASK = """
version = "1.0"
[agent]
timeout_sec = 120.0
[verifier]
timeout_sec = 120.0
[environment]
docker_image = "{image}"
workdir = "/app"
cpus = 1
memory_mb = 512
[environment.env]
LOUD = "HELLO"
"""
SOLVE = """#!/bin/sh
tr a-z A-Z < greeting.txt > /tmp/shouted.txt
"""
TEST = """#!/bin/sh
if [ "$(cat /tmp/shouted.txt)" = "$LOUD" ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
"""


def pytest_ignore_collect() -> bool | None:
    """Leave out tests that would write to this machine."""
    return None if "image" in PLACE.settings else True


@pytest.fixture(scope="session")
def task(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A task with a solution that reads a file of the environment."""
    folder = tmp_path_factory.mktemp("shout")
    files = {
        "task.toml": TASK.format(image=PLACE.settings["image"]),
        "instruction.md": "Write what is in greeting.txt to /tmp/shouted.txt, in capital letters.",
        "environment/greeting.txt": "hello\n",
        "solution/solve.sh": SOLVE,
        "tests/test.sh": TEST,
    }
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return folder
