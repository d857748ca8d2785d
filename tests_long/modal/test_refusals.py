"""Error messages where Modal cannot be used."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.xdist_group("modal")


def test_without_credentials_one_sentence_says_what_to_set(tmp_path: Path):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MODAL_")}
    code = (
        "import sys, environments; environments.create_environment('local'); print('modal' in sys.modules)\n"
        "environments.create_environment('modal').execute('true')"
    )
    variables = {**kept, "MODAL_CONFIG_PATH": str(tmp_path / "none.toml")}
    got = subprocess.run([sys.executable, "-c", code], env=variables, capture_output=True, text=True, check=False)
    assert got.stdout == "False\n", "the client library is imported only where it is used"
    last = got.stderr.strip().splitlines()[-1]
    words = "backend 'modal' has no credentials: set MODAL_TOKEN_ID and MODAL_TOKEN_SECRET, or run `modal setup`, which"
    assert words in last and last.endswith("writes ~/.modal.toml")
