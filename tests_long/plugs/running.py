"""Running the suite of one framework in one place."""

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
"""Seconds after which a suite counts as one that hangs."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the tests of one framework ended in one place."""

    framework: str
    """The name of the framework."""
    release: Release
    version: str
    place: str
    tests: Mapping[str, Mapping[str, str]]
    """By name: how each `ended` (passed, failed, expected, skipped), and `why`."""
    failure: str = ""
    """What went wrong, if anything that was not expected did; for people."""

    def counted(self, file: str = "") -> tuple[int, int]:
        """Return how many tests of one file, or of all, passed, and how many there are for this place."""
        ended = [
            test["ended"] for name, test in self.tests.items() if f"{file}::" in name and test["ended"] != "skipped"
        ]
        return ended.count("passed"), len(ended)


def run(framework: Framework, release: Release, place: str, *, file: str = "") -> Outcome:
    """Run a suite, in the virtual environment of its framework.

    Args:
        framework: The framework.
        release: Which release of it.
        place: A name of `PLACES`, or `own ` and one of the framework's own.
        file: The only file of the suite to run; all if not given.

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
    """Return the variables of a user of that environment who has set nothing for us or for the framework."""
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
