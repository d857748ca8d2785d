"""The contract, on every backend."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from targets.backends import BACKENDS, Backend

from environments.conformance import CHECKS, Check, Subject


@pytest.fixture(scope="module", params=BACKENDS, ids=lambda backend: backend.__name__)
def subject(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Subject]:
    backend: Backend = request.param
    with backend(tmp_path_factory.mktemp("session")) as made:
        yield made
        made.close()


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_the_contract_holds(check: Check, subject: Subject) -> None:
    check.run(subject)
