"""Uses of an executor by smolagents and its code agents, on its own executor and on ours."""

from __future__ import annotations

import datetime
import os
import threading
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, ClassVar

import pytest
from place import PLACE
from smolagents import CodeAgent, FinalAnswerTool, LocalPythonExecutor, Tool, tool
from smolagents.local_python_executor import PythonExecutor
from smolagents.models import ChatMessage, MessageRole, Model

from environments import BaseEnvironment, create_environment

ours = pytest.mark.skipif(bool(PLACE.own), reason="it is about the plug")


@pytest.fixture(scope="module")
def env() -> Iterator[BaseEnvironment]:
    with create_environment(**({"backend": "local"} if PLACE.own else PLACE.settings)) as env:
        yield env


@pytest.fixture
def executor(env: BaseEnvironment) -> Iterator[PythonExecutor]:
    if PLACE.own:
        yield LocalPythonExecutor(["json"])
        return
    from hermes_env.plugs.smolagents import HermesExecutor

    executor = HermesExecutor(env, timeout=60)
    yield executor
    executor.cleanup()


class Scripted(Model):
    """A model with a fixed list of answers, each a piece of code."""

    def __init__(self, *steps: str) -> None:
        super().__init__(model_id="scripted")
        self._steps = list(steps)

    def generate(self, messages: list[ChatMessage], **_: object) -> ChatMessage:
        code = f"<code>\n{self._steps.pop(0)}\n</code>"
        return ChatMessage(role=MessageRole.ASSISTANT, content=code)


@tool
def shout(text: str, times: int = 1) -> str:
    """Return a text in capitals.

    Args:
        text: The text.
        times: The number of repetitions.
    """
    return text.upper() * times


@tool
def where() -> str:
    """Return the process and the thread of the tool."""
    return f"{os.getpid()}"


@tool
def echoed(value: object) -> object:
    """Return a value.

    Args:
        value: The value.
    """
    return value


@tool
def refuse() -> str:
    """Fail."""
    raise ValueError("not today")


def agent(executor: PythonExecutor, tools: list[Tool], *steps: str, **options: Any) -> CodeAgent:
    return CodeAgent(tools=tools, model=Scripted(*steps), executor=executor, verbosity_level=0, **options)


def observed(ran: CodeAgent) -> list[str]:
    return [str(step.error or step.observations) for step in ran.memory.steps if hasattr(step, "observations")]


def test_an_agent_takes_several_steps_with_a_tool(executor: PythonExecutor) -> None:
    ran = agent(
        executor,
        [shout],
        "loud = shout('one two', times=2)\nprint(loud)",
        "words = loud.split()\nlen(words)",
        "final_answer(' '.join(words[:2]))",
    )
    assert ran.run("Shout.") == "ONE TWOONE"
    first, second, _ = observed(ran)
    assert "ONE TWOONE TWO\n" in first
    assert second.rstrip().endswith("3")


def test_an_error_is_told_to_the_model_which_goes_on_with_its_variables(executor: PythonExecutor) -> None:
    ran = agent(executor, [], "kept = 7\nprint('before')\nkept / 0", "final_answer(kept)")
    assert ran.run("Divide.") == 7
    failed, _ = observed(ran)
    assert "ZeroDivisionError" in failed


def test_variables_are_given_and_a_later_run_goes_on_with_those_of_the_code(executor: PythonExecutor) -> None:
    ran = agent(executor, [], "total = sum(numbers)\nfinal_answer(total)")
    assert ran.run("Add.", additional_args={"numbers": [1, 2, 39]}) == 42
    ran.model = Scripted("numbers.append(total)\nfinal_answer(numbers)")
    assert ran.run("And again.", reset=False) == [1, 2, 39, 42]


def test_values_go_both_ways_as_they_are(executor: PythonExecutor) -> None:
    values: dict[str, object] = {
        "tuple": (1, ("two", None)),
        "set": {1, 2},
        "bytes": b"\x00\xff",
        "date": datetime.date(2026, 11, 27),
        "decimal": Decimal("1.10"),
        "keys": {1: "one", "two": 2.5},
    }
    executor.send_variables({"values": values})
    executor.send_tools({"echoed": echoed, "final_answer": FinalAnswerTool()})
    answered = executor("final_answer([echoed(values[name]) for name in values])")
    assert answered.is_final_answer
    assert answered.output == list(values.values())


def test_a_tool_that_fails_raises_in_the_code(executor: PythonExecutor) -> None:
    executor.send_tools({"refuse": refuse})
    caught = executor("try:\n    refuse()\nexcept Exception as error:\n    print('caught', error)")
    assert "caught" in caught.logs and "not today" in caught.logs
    with pytest.raises(Exception, match="not today"):
        executor("refuse()")


def test_tools_of_a_later_run_take_the_place_of_those_before(executor: PythonExecutor) -> None:
    executor.send_tools({"shout": shout})
    assert executor("print(shout('a'))").logs.strip() == "A"
    executor.send_tools({"echoed": echoed})
    assert executor("print(echoed('a'))").logs.strip() == "a"


def test_the_code_ends_with_the_final_answer(executor: PythonExecutor) -> None:
    executor.send_tools({"final_answer": FinalAnswerTool()})
    answered = executor("print('said')\nfinal_answer('done')\nprint('never')")
    assert (answered.output, answered.is_final_answer) == ("done", True)
    assert "said" in answered.logs and "never" not in answered.logs
    assert not executor("1").is_final_answer


def test_a_final_answer_may_be_anything_that_an_agent_makes_of_it(executor: PythonExecutor) -> None:
    class Checked(FinalAnswerTool):
        inputs: ClassVar = {
            "answer": {"type": "string", "description": "The answer."},
            "sure": {"type": "boolean", "description": "Whether it is sure."},
        }

        def forward(self, answer: str, sure: bool) -> object:
            return threading.Event() if sure else answer

    executor.send_tools({"final_answer": Checked()})
    assert executor("final_answer('maybe', sure=False)").output == "maybe"
    assert isinstance(executor("final_answer(answer='yes', sure=True)").output, threading.Event)


def test_a_managed_agent_is_called_as_a_tool_is(executor: PythonExecutor) -> None:
    helper = CodeAgent(
        tools=[],
        model=Scripted("final_answer('forty-two')"),
        name="helper",
        description="Knows everything.",
        verbosity_level=0,
    )
    ran = agent(executor, [], "told = helper('What is it?')\nfinal_answer(told)", managed_agents=[helper])
    assert "forty-two" in ran.run("Ask.")


@ours
def test_the_code_runs_in_the_target_and_its_tools_run_here(executor: PythonExecutor) -> None:
    executor.send_tools({"where": where, "final_answer": FinalAnswerTool()})
    there, tools = executor("import os\nfinal_answer([os.getpid(), where()])").output
    assert tools == str(os.getpid())
    assert there != os.getpid()


@ours
def test_code_that_takes_too_long_is_ended_and_the_next_step_has_its_tools(env: BaseEnvironment) -> None:
    from hermes_env.plugs.smolagents import HermesExecutor

    executor = HermesExecutor(env, timeout=3)
    ran = agent(
        executor,
        [shout],
        "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nlost = 1\ntime.sleep(600)",
        "final_answer((shout(given), 'lost' in globals()))",
    )
    with ran:
        assert ran.run("Wait.", additional_args={"given": "still here"}) == ("STILL HERE", False)
    assert "timed out after 3s" in observed(ran)[0]


@ours
def test_limits_hold_for_each_step(env: BaseEnvironment) -> None:
    from hermes_env.plugs.smolagents import HermesExecutor

    executor = HermesExecutor(env, max_tool_calls=2)
    executor.send_tools({"shout": shout})
    with pytest.raises(Exception, match="tool call"):
        executor("for _ in range(3):\n    shout('a')")
    assert executor("print(shout('b'))").logs.strip() == "B"
    executor.cleanup()
    with pytest.raises(Exception, match="closed"):
        executor("1")


@ours
def test_a_hook_is_asked_about_the_code_of_the_model_alone() -> None:
    from hermes_env.plugs.smolagents import HermesExecutor

    asked: list[str] = []

    def before_script(request: Any) -> Any:
        asked.append(request.code)
        return "no deletions" if "rmtree" in request.code else None

    with create_environment(**PLACE.settings, before_script=before_script) as env:
        executor = HermesExecutor(env)
        executor.send_tools({"shout": shout})
        assert executor("print(shout('a'))").logs.strip() == "A"
        with pytest.raises(Exception, match="no deletions"):
            executor("import shutil; shutil.rmtree('/')")
        executor.cleanup()
    assert asked == ["print(shout('a'))", "import shutil; shutil.rmtree('/')"]


@ours
def test_a_value_that_cannot_be_sent_is_refused_before_anything_runs(executor: PythonExecutor) -> None:
    with pytest.raises(Exception, match="Event"):
        executor.send_variables({"event": threading.Event()})
