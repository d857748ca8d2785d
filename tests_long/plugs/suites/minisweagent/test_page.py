"""The example of mini-swe-agent in docs/agents.md."""

from __future__ import annotations

import pytest
import yaml
from minisweagent.environments import get_environment
from page import example
from place import PLACE

if PLACE.own:
    pytest.skip("it is about the plug", allow_module_level=True)


def test_the_pages_configuration_makes_an_environment() -> None:
    config = yaml.safe_load(example("mini-swe-agent"))["environment"]
    del config["backend"], config["image"]
    env = get_environment({**config, **{key: value for key, value in PLACE.settings.items() if value is not None}})
    try:
        assert env.execute({"command": "echo $PAGER"})["output"] == "cat\n"
    finally:
        env.cleanup()
