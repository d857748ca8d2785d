"""A task for inspect_ai with samples on any backend.

    inspect eval examples/inspect_task.py --model openai/gpt-5 --sandbox hermes:docker

`hermes:docker` takes image and limits from our own settings, `hermes:FILE.yaml` from a file of settings. See
docs/agents.md.
"""

from __future__ import annotations

from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.scorer import includes
from inspect_ai.solver import generate, use_tools
from inspect_ai.tool import bash

POEM = "The woods are lovely, dark and deep,\nBut I have promises to keep,\nAnd miles to go before I sleep,\n"


@task
def count_lines() -> Task:
    """Ask for a number that only a command can find."""
    question = "How many lines does poem.txt have? Look with bash, and answer with the number alone."
    sample = Sample(input=question, target="3", files={"poem.txt": POEM})
    return Task(dataset=[sample], solver=[use_tools(bash(timeout=60)), generate()], scorer=includes(), sandbox="hermes")
