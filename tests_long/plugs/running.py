"""A run of a framework's suite in a place."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from plugs.frameworks import Framework, Release
from plugs.installation import python_with
from plugs.places import PLACES, Place, own

SUITES = Path(__file__).with_name("suites")
_LONGEST = 900
"""Seconds after which a suite counts as hanging."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a framework's tests in a place."""

    framework: str
    """The name of the framework."""
    release: Release
    version: str
    place: str
    tests: Mapping[str, Mapping[str, str]]
    """By name: `ended` (passed, failed, expected or skipped) and `why`."""
    failure: str = ""
    """A description of an unexpected failure, for people; empty without a failure."""

    def counted(self, file: str = "") -> tuple[int, int]:
        """Return the number of passed tests of a file, or of all files, and the number of tests for this place."""
        ended = [
            test["ended"] for name, test in self.tests.items() if f"{file}::" in name and test["ended"] != "skipped"
        ]
        return ended.count("passed"), len(ended)


def run(framework: Framework, release: Release, place: str, *, file: str = "") -> Outcome:
    """Run a suite, in the virtual environment of its framework.

    Args:
        framework: The framework.
        release: The release of the framework.
        place: A name of `PLACES`, or `own ` and the name of a backend of the framework.
        file: The only file to run; all files by default.

    Raises:
        InstallationError: The framework could not be installed.
        pytest.fail.Exception: The engine is not on this machine.
    """
    python, version = python_with(framework, release)
    opened = own(place.removeprefix("own ")) if place.startswith("own ") else PLACES[place]()
    with opened as where, tempfile.TemporaryDirectory() as folder:
        written = Path(folder) / "outcomes.json"
        argv = [str(python), "-m", "pytest", "-c", str(SUITES / "pytest.ini"), str(SUITES / framework.name / file)]
        done = subprocess.run(
            argv,
            cwd=folder,
            env={**_variables(framework, where, python, written), "PLUG_RELEASE": release},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_LONGEST,
            check=False,
        )
        tests = json.loads(written.read_text()) if written.exists() else {}
    went_wrong = done.returncode != 0 and not (tests and place.startswith("own "))
    return Outcome(framework.name, release, version, place, tests, done.stdout + done.stderr if went_wrong else "")


def _variables(framework: Framework, place: Place, python: Path, written: Path) -> dict[str, str]:
    """Return the variables of an activated environment, without settings for us or for the framework."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("TERMINAL_", "PYTHON", "PYTEST_"))
    }
    homes = ("HERMES_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME")
    return {
        **kept,
        **{home: str(written.parent / home.lower()) for home in homes},
        **dict(framework.variables),
        "PATH": f"{python.parent}:{os.environ['PATH']}",
        "PLUG_PLACE": json.dumps(asdict(place)),
        "PLUG_OUTCOMES": str(written),
    }
