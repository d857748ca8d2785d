"""`python -m fuzz [NAME...]`: run each target, or the named ones, for `SECONDS` under atheris, guided by coverage."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["environments", "rpc", "code_execution", "hermes_tools"]):
    from fuzz.all_targets import TARGETS, targets_of_tests
from fuzz.target import Target

SECONDS = int(os.environ.get("SECONDS", "60"))
FOUND = Path(".fuzz")
"""The folder of corpora and failing inputs, kept from run to run."""
LONGEST_CHECK = 25
"""Seconds after which a check counts as hanging."""
MOST_MEMORY = 2048
"""Megabytes."""


def fuzz(target: Target) -> None:
    """Fuzz one target. The process ends afterwards."""
    folder = FOUND / target.name
    corpus = folder / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    words = folder / "words"
    entries = "".join(f'"{_escaped(word)}"\n' for word in target.words if 0 < len(word) <= 64)
    words.write_text(entries)
    (corpus / "words").write_bytes(b"\0\0" + b"".join(target.words))
    options = [
        *([f"-dict={words}"] if entries else []),  # an empty dictionary is an error
        f"-max_total_time={SECONDS}",
        f"-timeout={LONGEST_CHECK}",
        f"-rss_limit_mb={MOST_MEMORY}",
    ]
    atheris.Setup([sys.argv[0], *options, "-verbosity=0", f"-artifact_prefix={folder}/", str(corpus)], target.check)
    atheris.Fuzz()


def _escaped(word: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in word)


def main() -> None:
    """Fuzz each target in a process of its own, and print the names of failed targets."""
    targets = {target.name: target for target in (*TARGETS, *targets_of_tests())}
    if os.environ.get("FUZZ_TARGET"):
        fuzz(targets[os.environ["FUZZ_TARGET"]])
        return
    failed = []
    for name in sys.argv[1:] or targets:
        print(f"{name}: {SECONDS} s", flush=True)
        if subprocess.run(
            [sys.executable, "-m", "fuzz"], env={**os.environ, "FUZZ_TARGET": name}, check=False
        ).returncode:
            failed.append(f"{name}: the failing input is in {FOUND / name}")
    sys.exit("\n".join(failed) or None)


if __name__ == "__main__":
    main()
