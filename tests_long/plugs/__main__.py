"""`python -m plugs [FRAMEWORK...]`: run the suites of all frameworks, or the named ones, and print the table."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from dataclasses import asdict
from itertools import product

import pytest

from plugs import table
from plugs.frameworks import BY_NAME, RELEASES, Framework, Release
from plugs.installation import KEPT
from plugs.places import PLACES
from plugs.running import Outcome, run


def main() -> int:
    """Run the suites, and return the exit code: 0 if all ended as expected."""
    parser = argparse.ArgumentParser(prog="python -m plugs")
    parser.add_argument("frameworks", nargs="*", metavar="FRAMEWORK", help=f"of {', '.join(BY_NAME)}; all if not given")
    parser.add_argument("--place", action="append", metavar="PLACE", help=f"of {', '.join(PLACES)}; all if not given")
    parser.add_argument("--release", action="append", choices=RELEASES, help="both if not given")
    parser.add_argument("--write", action="store_true", help="put the table into README.md")
    asked = parser.parse_args()
    outcomes = []
    for name, release in product(asked.frameworks or BY_NAME, asked.release or RELEASES):
        framework = BY_NAME[name]
        own = [f"own {each}" for each in framework.own if release == "newest"]
        for place in asked.place or [*PLACES, *own]:
            if outcome := _run(framework, release, place):
                outcomes.append(outcome)
    text = table.table(_with_earlier(outcomes))
    print(f"\n{text}")
    if asked.write:
        table.write(text)
    return int(any(outcome.failure for outcome in outcomes))


def _with_earlier(outcomes: list[Outcome]) -> list[Outcome]:
    """Store outcomes for later runs, and return them, completed by outcomes of earlier runs."""
    KEPT.mkdir(exist_ok=True)
    path = KEPT / "results.json"
    earlier = [Outcome(**kept) for kept in json.loads(path.read_text())] if path.exists() else []
    all_known = {
        (outcome.framework, outcome.release, outcome.place): outcome
        for outcome in [*earlier, *outcomes]
        if outcome.tests
    }
    path.write_text(json.dumps([asdict(outcome) for outcome in all_known.values()], indent=1))
    return list(all_known.values())


def _run(framework: Framework, release: Release, place: str) -> Outcome | None:
    try:
        outcome = run(framework, release, place)
    except pytest.skip.Exception as missing:
        print(f"{framework.name}, {release}, on {place}: not run: {missing}", flush=True)
        return None
    ended = Counter(test["ended"] for test in outcome.tests.values())
    print(
        f"{framework.package} {outcome.version} on {place}: {', '.join(f'{n} {how}' for how, n in ended.items())}",
        flush=True,
    )
    for name, test in outcome.tests.items():
        if test["ended"] != "passed":
            print(f"  {test['ended']}: {name.rpartition('::')[2]}: {test['why']}")
    if outcome.failure:
        print(outcome.failure)
    return outcome


if __name__ == "__main__":
    sys.exit(main())
