"""The code keeps to the rules of words that stand in CONTRIBUTING.md."""

from __future__ import annotations

import pytest

from docs.words import QUESTIONS, File, documented_overrides, doubled, files, undocumented

MOST_PRONOUNS = 40
"""Pronouns in 1,000 words of docstrings, for each package."""
SAME_MEANING = {"HermesEnvironment"}
"""Names that other frameworks' users find in the module of each of these frameworks, all with one meaning."""


@pytest.fixture(scope="module")
def product() -> list[File]:
    return files()


def test_docstrings_have_few_pronouns(product: list[File]) -> None:
    words: dict[str, list[int]] = {}
    for file in product:
        counts = words.setdefault(file.name.split("/")[0], [0, 0])
        counts[0] += file.words
        counts[1] += file.pronouns
    assert {room: 1000 * few / of for room, (of, few) in words.items() if 1000 * few > MOST_PRONOUNS * of} == {}


def test_no_module_begins_with_a_question(product: list[File]) -> None:
    assert [file.name for file in product if file.docstring.startswith(QUESTIONS)] == []


def test_a_class_name_has_one_meaning(product: list[File]) -> None:
    assert doubled(product).keys() <= SAME_MEANING


def test_an_override_is_documented_by_its_base_class_alone(product: list[File]) -> None:
    assert documented_overrides(product) == []


def test_every_other_public_method_is_documented(product: list[File]) -> None:
    assert undocumented(product) == []
