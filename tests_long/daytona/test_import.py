"""The cost of importing Daytona's client."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.xdist_group("daytona")


def test_the_client_library_is_imported_only_where_it_is_used():
    code = "import sys, environments.daytona; print([m for m in sys.modules if 'daytona' in m])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "['environments.daytona.settings', 'environments.daytona']\n"
