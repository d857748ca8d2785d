"""Sections of config.yaml whose names are slips."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from environments import SettingsError, create_environment, load_settings

SLIPS = {
    "terminl": "terminal",
    "terminals": "terminal",
    "Terminal": "terminal",
    "termianl": "terminal",
    "code-execution": "code_execution",
    "codeexecution": "code_execution",
    "approval": "approvals",
    "securty": "security",
    "WEB": "web",
}
OTHERS = ("model", "display", "terminal_ui", "browser", "memory", "skills", "command_allowlist", "_config_version")
"""Sections of the older system, which reads the same file, and of programs beside it."""


def test_a_misspelt_section_is_an_error_that_names_the_right_one(configure: Callable[[str], None]) -> None:
    taken = []
    for slip, meant in SLIPS.items():
        configure(f"{slip}:\n  env: docker\n")
        try:
            load_settings()
        except SettingsError as error:
            if f"{slip!r} (did you mean {meant!r}?)" in str(error):
                continue
        taken.append(slip)
    assert taken == []


def test_no_command_runs_on_this_machine_for_a_misspelt_section(configure: Callable[[str], None]) -> None:
    configure("terminl:\n  env: docker\n")
    with pytest.raises(SettingsError, match="terminl"):
        create_environment()


def test_sections_of_other_programs_are_left_alone(configure: Callable[[str], None]) -> None:
    configure("".join(f"{name}:\n  env: docker\n" for name in OTHERS) + "terminal: {cwd: /tmp}\n")
    assert load_settings().cwd == "/tmp"
