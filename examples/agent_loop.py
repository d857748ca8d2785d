"""An agent in one file: `OPENAI_API_KEY=... python examples/agent_loop.py "How many lines of Python are here?"`.

A model works in the configured environment (this machine by default, a container with TERMINAL_ENV=docker) until an
answer has no tool call. Any service with OpenAI's chat completions will do: OPENAI_BASE_URL and OPENAI_MODEL.
"""

from __future__ import annotations

import json
import os
import sys
import urllib.request

from environments.tasks import cleanup_environment
from hermes_env.schemas import handle_function_call, tool_schemas

MOST_TURNS = 30
SYSTEM = "You work on a computer through tools. Answer in a few sentences when you are done."


def complete(messages: list[dict]) -> dict:
    """Ask the model for the next message."""
    body = {"model": os.environ.get("OPENAI_MODEL", "gpt-4.1"), "messages": messages, "tools": tool_schemas("openai")}
    request = urllib.request.Request(
        os.environ.get("OPENAI_BASE_URL", "https://api.openai.com/v1") + "/chat/completions",
        json.dumps(body).encode(),
        {"Authorization": f"Bearer {os.environ['OPENAI_API_KEY']}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=600) as response:
        return json.load(response)["choices"][0]["message"]


def run(task: str, task_id: str) -> str:
    """Let the model work on a task, and return the last answer."""
    messages: list[dict] = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": task}]
    for _ in range(MOST_TURNS):
        answer = complete(messages)
        messages.append(answer)
        if not answer.get("tool_calls"):
            return answer["content"]
        for call in answer["tool_calls"]:
            name, arguments = call["function"]["name"], call["function"]["arguments"]
            print(f"{name} {arguments}", file=sys.stderr)
            result = handle_function_call(name, arguments, task_id=task_id)
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
    return f"It was not done after {MOST_TURNS} turns."


if __name__ == "__main__":
    try:
        print(run(" ".join(sys.argv[1:]), task_id="agent loop"))
    finally:
        cleanup_environment("agent loop")
