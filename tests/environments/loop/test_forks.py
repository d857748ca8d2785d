"""Forked children, and the loop threads of their parents."""

from __future__ import annotations

import pytest
from targets.loop_calls import output_lines

from environments import loop

FORKED = """
from environments import loop

def child_of(act):
    child = os.fork()
    if child == 0:
        code = 1
        try:
            act()
            code = 0
        finally:
            os._exit(code)
    return child

def ended(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
"""
FORKED_IN_A_CALLBACK = f"""{FORKED}
from environments.output import Channel

children = []

async def work(call):
    call.pieces.offer(Channel.STDOUT, b"x", None)
    while not children:
        await asyncio.sleep(0)
    return "value"
"""


def test_a_child_has_a_loop_of_its_own_and_its_parents_goes_on() -> None:
    script = """
        say("parent", loop.run(lambda _: loop.in_worker(str, "right")))
        parents = loop.current()

        def act():
            say("child", loop.run(right), loop.run(lambda _: loop.in_worker(str, "in a worker")))
            assert loop.current() is not parents
            import gc
            gc.collect()
            loop.current().stop()

        for _ in range(2):
            say("exit code", ended(child_of(act)))
            say("parent", loop.run(right), loop.run(lambda _: loop.in_worker(str, "in a worker")))
        assert loop.current() is parents
    """
    once = ["child right in a worker", "exit code 0", "parent right in a worker"]
    assert output_lines(FORKED, script) == ["parent right", *once, *once]


def test_a_grandchild_has_a_loop_of_its_own() -> None:
    script = """
        loop.run(right)

        def act():
            say("child", loop.run(right))
            say("exit code", ended(child_of(lambda: say("grandchild", loop.run(right)))))
            say("child", loop.run(right))

        say("exit code", ended(child_of(act)))
        say("parent", loop.run(right))
    """
    lines = ["child right", "grandchild right", "exit code 0", "child right", "exit code 0", "parent right"]
    assert output_lines(FORKED, script) == lines


@pytest.mark.parametrize("calls", [True, False])
def test_a_child_that_ends_as_programs_do_leaves_its_parents_loop_alone(calls: bool) -> None:
    script = f"""
        loop.run(right)
        child = os.fork()
        if child == 0:
            if {calls}:
                say("child", loop.run(right))
            sys.exit(7)
        say("exit code", ended(child))
        say("parent", loop.run(right))
    """
    assert output_lines(FORKED, script) == ["child right"] * calls + ["exit code 7", "parent right"]


def test_a_child_forked_while_another_thread_of_its_parent_waits() -> None:
    script = """
        released, begun, results = asyncio.Event(), threading.Event(), []

        async def work(call):
            begun.set()
            await released.wait()
            return "value"

        waiting = threading.Thread(target=lambda: results.append(loop.run(work)))
        waiting.start()
        begun.wait()
        say("exit code", ended(child_of(lambda: say("child", loop.run(right)))))
        loop.current().soon(released.set)
        waiting.join()
        say("parent", *results)
    """
    assert output_lines(FORKED, script) == ["child right", "exit code 0", "parent value"]


def test_a_child_forked_while_another_thread_starts_the_loop() -> None:
    script = """
        held, done = threading.Event(), threading.Event()

        def hold():
            with loop._making:
                held.set()
                done.wait()

        holding = threading.Thread(target=hold)
        holding.start()
        held.wait()
        say("exit code", ended(child_of(lambda: say("child", loop.run(right)))))
        done.set()
        holding.join()
        say("parent", loop.run(right))
    """
    assert output_lines(FORKED, script) == ["child right", "exit code 0", "parent right"]


def test_in_a_child_forked_in_a_callback_the_call_fails_and_its_parents_goes_on() -> None:
    script = """
        from environments import TerminalError
        def fork(channel, data):
            children.append(os.fork())

        try:
            say("parent", loop.run(work, fork))
        except TerminalError as error:
            say("child:", error)
            say("child", loop.run(right))
            os._exit(0)
        say("exit code", ended(*children))
    """
    lines = [f"child: {loop.FORKED}", "child right", "exit code 0", "parent value"]
    assert sorted(output_lines(FORKED_IN_A_CALLBACK, script)) == sorted(lines)


def test_a_callback_that_forks_and_raises_in_the_child_raises_there() -> None:
    script = """
        def fork(channel, data):
            children.append(os.fork())
            if children == [0]:
                raise KeyError("child's")

        try:
            say("parent", loop.run(work, fork))
        except KeyError as error:
            say(error, loop.run(right))
            os._exit(0)
        say("exit code", ended(*children))
    """
    assert sorted(output_lines(FORKED_IN_A_CALLBACK, script)) == ['"child\'s" right', "exit code 0", "parent value"]
