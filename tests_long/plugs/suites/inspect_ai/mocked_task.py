"""The task of examples/inspect_task.py, with a model that counts by bash and repeats the output."""

from __future__ import annotations

import runpy
from pathlib import Path

from inspect_ai import Task, task
from inspect_ai.model import ChatMessage, ChatMessageTool, ModelOutput, ModelUsage, get_model

EXAMPLE = Path(__file__).parents[4] / "examples" / "inspect_task.py"


USAGE = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)  # otherwise a token counter is downloaded


def answer(messages: list[ChatMessage], *_: object) -> ModelOutput:
    last = messages[-1]
    if isinstance(last, ChatMessageTool):
        output = ModelOutput.from_content("mockllm/model", f"It has {last.text.strip()} lines.")
    else:
        output = ModelOutput.for_tool_call("mockllm/model", "bash", {"command": "wc -l < poem.txt"})
    output.usage = USAGE
    return output


@task
def mocked() -> Task:
    made: Task = runpy.run_path(str(EXAMPLE))["count_lines"]()
    made.model = get_model("mockllm/model", custom_outputs=answer)
    return made
