from __future__ import annotations

from typing import Any

import pytest
from targets.mcp_server import Session, over_stdio, server_variables, web_server

__all__ = ["over_stdio", "server_variables", "web_server"]


@pytest.fixture(params=["stdio", "http"])
def session(request: pytest.FixtureRequest) -> Session:
    """Begins a session, over each transport."""
    found: Any = request.getfixturevalue("web_server" if request.param == "http" else "over_stdio")
    return found.client if request.param == "http" else found
