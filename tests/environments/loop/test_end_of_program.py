"""The loop thread at the end of a program."""

from __future__ import annotations

from targets.loop_calls import output_lines

from environments import loop


def test_atexit_callbacks_registered_after_the_import_may_call_and_earlier_ones_get_an_error() -> None:
    script = """
        atexit.register(try_a_call, "before:")
        from environments import loop
        atexit.register(try_a_call, "after:")
        say("main:", loop.run(right))
    """
    assert output_lines(script) == ["main: right", "after: right", f"before: {loop.AT_EXIT}"]


def test_the_first_call_of_a_program_may_be_at_exit() -> None:
    script = """
        atexit.register(try_a_call, "before:")
        from environments import loop
        atexit.register(try_a_call, "after:")
    """
    assert output_lines(script) == ["after: right", f"before: {loop.AT_EXIT}"]


def test_a_call_in_progress_in_a_daemon_thread_gets_an_error() -> None:
    script = """
        outcome = threading.Event()
        atexit.register(outcome.wait, 60)
        from environments import TerminalError, loop

        begun = threading.Event()

        async def work(call):
            begun.set()
            await asyncio.sleep(1000)

        def call():
            try:
                loop.run(work)
            except TerminalError as error:
                say(error)
            outcome.set()

        threading.Thread(target=call, daemon=True).start()
        begun.wait()
    """
    assert output_lines(script) == [loop.AT_EXIT]


def test_background_work_ends_before_the_program() -> None:
    script = """
        from environments import loop

        released = threading.Event()

        async def last():
            await loop.in_worker(released.wait)
            loop.spawn(after())
            say("beside")

        async def after():
            await asyncio.sleep(0)
            say("after it", await loop.in_worker(str, "in a worker"))

        async def work(call):
            loop.spawn(last())

        loop.run(work)
        atexit.register(released.set)
    """
    assert output_lines(script) == ["beside", "after it in a worker"]


def test_background_work_that_does_not_end_is_given_up() -> None:
    script = """
        atexit.register(try_a_call, "before:")
        from environments import loop

        loop.STOP_LIMIT = 0.05

        async def work(call):
            loop.spawn(asyncio.sleep(1000))

        loop.run(work)
        say("end")
    """
    assert output_lines(script) == ["end", f"before: {loop.AT_EXIT}"]


def test_closing_functions_run_after_all_other_work() -> None:
    script = """
        from environments import loop

        loop.CLOSE_LIMIT = 0.05

        async def closing(word):
            say(word)
            if word == "fails":
                raise OSError
            if word == "hangs":
                await asyncio.sleep(1000)

        async def last():
            await asyncio.sleep(0.1)
            say("last work")

        async def work(call):
            for word in ("fails", "hangs", "closes"):
                loop.current().at_end(lambda word=word: closing(word))
            loop.spawn(last())

        loop.run(work)
    """
    assert output_lines(script) == ["last work", "fails", "hangs", "closes"]


def test_a_host_is_looked_up_on_a_worker_at_exit() -> None:
    script = """
        from environments import loop

        async def look_up(call):
            return len(await asyncio.get_running_loop().getaddrinfo("127.0.0.1", 80)) > 0

        loop.current().run_lookups_on_workers()
        say(loop.run(look_up))
        atexit.register(lambda: say(loop.run(look_up)))
    """
    assert output_lines(script) == ["True", "True"]


def test_a_loop_that_is_blocked_is_given_up() -> None:
    script = """
        from environments import loop

        loop.STOP_LIMIT = -0.95
        loop.run(right)
        loop.current().soon(threading.Event().wait)
        say("end")
    """
    assert output_lines(script) == ["end"]


def test_work_whose_caller_has_left_ends_whole_before_the_program() -> None:
    script = """
        from environments import loop

        async def work(call):
            try:
                asyncio.get_running_loop().call_soon(os.kill, os.getpid(), signal.SIGINT)
                await asyncio.sleep(1000)
            finally:
                say("in a worker", await loop.in_worker(gone.wait, 60))
                await asyncio.sleep(0)
                say("ended")

        gone = threading.Event()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            loop.run(work)
        except KeyboardInterrupt:
            say("left")
        atexit.register(gone.set)
    """
    assert output_lines(script) == ["left", "in a worker True", "ended"]


def test_work_whose_caller_was_interrupted_while_leaving_ends_whole_before_the_program() -> None:
    script = """
        from environments import loop
        from environments.output import Channel

        begun = threading.Event()

        async def work(call):
            try:
                call.pieces.offer(Channel.STDOUT, b"x", None)
                asyncio.get_running_loop().call_soon(begun.set)
                await asyncio.sleep(1000)
            finally:
                await asyncio.sleep(0)
                say("ended")

        def leave(channel, data):
            begun.wait()
            loop.LoopThread.soon = leave_again
            raise KeyboardInterrupt

        def leave_again(*_):
            loop.LoopThread.soon = soon
            raise KeyboardInterrupt

        soon = loop.LoopThread.soon
        try:
            loop.run(work, leave)
        except KeyboardInterrupt:
            say("left")
    """
    assert output_lines(script) == ["left", "ended"]


def test_an_unreceived_result_is_undone_before_the_program_ends() -> None:
    script = """
        from environments import loop
        from environments.output import Channel

        async def undo(value):
            await asyncio.sleep(0)
            say("undone", value)

        done = threading.Event()

        async def work(call):
            call.undo = undo
            call.pieces.offer(Channel.STDOUT, b"x", None)
            asyncio.get_running_loop().call_soon(done.set)
            return "value"

        def leave(channel, data):
            done.wait()
            sys.exit()

        loop.run(work, leave)
    """
    assert output_lines(script) == ["undone value"]


def test_workers_work_at_exit() -> None:
    script = """
        from environments import loop

        @atexit.register
        def last():
            async def work(call):
                return await asyncio.gather(*(loop.in_worker(str, number) for number in range(2)))

            say(*loop.run(work))

        async def use(call):
            await asyncio.gather(*(loop.in_worker(barrier.wait) for _ in range(2)))

        barrier = threading.Barrier(2)
        loop.run(use)
    """
    assert output_lines(script) == ["0 1"]


def test_a_function_that_blocks_in_a_worker_does_not_keep_the_program() -> None:
    script = """
        from environments import loop

        begun = threading.Event()

        def block():
            begun.set()
            threading.Event().wait()

        threading.Thread(target=loop.run, args=(lambda _: loop.in_worker(block),), daemon=True).start()
        begun.wait()
        say("end")
    """
    assert output_lines(script) == ["end"]


def test_sys_exit_in_a_call_ends_the_program() -> None:
    script = """
        from environments import loop

        @atexit.register
        def last():
            say("last", loop.run(right))

        async def work(call):
            sys.exit(0)

        loop.run(work)
        say("never")
    """
    assert output_lines(script) == ["last right"]
