"""The session program: runs script after script in one namespace, for a Python session.

In the target, this text follows `boot_program` and uses the names defined there.
"""

# ruff: noqa: PTH108, PTH112, PTH208, S110, S302, SIM105  # pathlib or contextlib would cost milliseconds

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket

    from code_execution.boot_program import ATOMIC, RECEIVE, ignore_signal, main_module

SIZE_DIGITS = 9
"""Digits of the size before each script."""
KEPT_SOURCES = 200
"""Scripts whose source file is kept for tracebacks."""
MOST_FIGURES, LARGEST_FIGURE = 10, 5 * 1024 * 1024
"""Limits for the figures of a script, and for the bytes of each."""


class ScriptRunner:
    """Runs received scripts in a single namespace, and reports the result of each.

    Messages follow the script's own output. On standard output: the value of a last expression, `v SIZE LAST` and
    bytes, in parts; the figures, `i SIZE LAST` likewise; and the end, `d NUMBER CODE SIZE LEFT_OUT`, with the script's
    number, the exit code, the size of the whole value, and the number of figures left out. On standard error: the end
    alone, `f NUMBER`.

    Args:
        control: Socket that delivers scripts.
        directory: Directory for their source files.
        word: Marker word of the messages.
    """

    def __init__(self, control: _socket.socket, directory: str, word: str) -> None:
        import _signal  # type: ignore[import-not-found]

        self.control, self.directory, self.word = control, directory, word
        self.process = os.getpid()
        self.out, self.errors = os.dup(1), os.dup(2)  # a script may close or replace 1 and 2
        self.signals = _signal
        self.on_interrupt = _signal.default_int_handler  # the scripts' handler
        self.flags = 0
        self.names = main_module(directory + "/script-0.py").__dict__
        os.environ.setdefault("MPLBACKEND", "agg")  # figures become files

    def serve(self) -> None:
        """Run scripts until the control connection ends."""
        import marshal

        self.ignore_interrupts()
        while True:
            head = self.receive(SIZE_DIGITS)
            if not head:
                return
            if not int(head):  # an interrupt for a script that has ended
                continue
            request = marshal.loads(self.receive(int(head)))
            code, value, size, figures, left_out = self.run(request)
            for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
                try:
                    stream.flush()  # type: ignore[union-attr]  # a script may have replaced the stream
                except Exception:
                    pass
            if os.getpid() != self.process:  # a child forked by the script, which returned to here
                sys.exit(code)
            number = request["number"]
            for kind, data in (("v", value), *(("i", figure) for figure in figures)):
                self.report_in_parts(kind, data)
            self.report(self.out, f"d {number} {code} {size} {left_out}\n".encode())
            self.report(self.errors, f"f {number}\n".encode())

    def ignore_interrupts(self) -> None:
        """Ignore interrupts between two scripts."""
        handler = self.signals.signal(2, ignore_signal)
        if handler is not ignore_signal:
            self.on_interrupt = handler

    def receive(self, size: int) -> bytes:
        """Return exactly `size` bytes; b"" at the end of the connection."""
        data = b""
        while len(data) < size:
            piece = self.control.recv(min(size - len(data), RECEIVE))
            if not piece:
                return b""
            data += piece
        return data

    def is_interrupted(self) -> bool:
        """Return True if an interrupt follows the script, before the signal has any effect."""
        import _socket

        try:
            return bool(self.control.recv(1, _socket.MSG_PEEK | _socket.MSG_DONTWAIT))
        except BlockingIOError:
            return False

    def run(self, request: dict[str, object]) -> tuple[int, bytes, int, list[bytes], int]:
        """Run a script; return the exit code, the value cut to the limit, the value's size, the figures, and the number
        left out."""
        code, value, left_out = 1, b"", 0
        figures: list[bytes] = []
        try:
            try:
                self.signals.signal(2, self.on_interrupt)
                if self.is_interrupted():
                    raise KeyboardInterrupt
                text = self.value_of(request)
                value = b"" if text is None else text.encode("utf-8", "backslashreplace")
                figures, left_out = draw_figures()
                code = 0
            finally:
                self.ignore_interrupts()
        except SystemExit as error:
            code = self.exit_code(error.code)
        except KeyboardInterrupt as error:
            code = 130
            self.show(error)
        except BaseException as error:
            self.show(error)
        self.ignore_interrupts()  # an interrupt may have come in between
        return code, value[: int(str(request["most"]))], len(value), figures, left_out

    def value_of(self, request: dict[str, object]) -> str | None:
        """Run a script, and return the `repr` of a final expression, unless None."""
        import _ast

        path, source = "{}/script-{}.py".format(self.directory, request["number"]), str(request["code"]).encode()
        self.write_file(path, source)  # tracebacks read the source there
        self.remove_source(int(str(request["number"])) - KEPT_SOURCES)
        if request["stub"] is not None:
            self.replace_tools(str(request["stub"]).encode())
        sys.argv[:] = [path, *request["arguments"]]  # type: ignore[misc]
        self.names["__file__"] = path
        tree = compile(source, path, "exec", _ast.PyCF_ONLY_AST | self.flags, dont_inherit=True)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], _ast.Expr) else None
        code = compile(tree, path, "exec", self.flags, dont_inherit=True)
        if b"__future__" in source:  # a future import stays active for later scripts
            import __future__

            features = [getattr(__future__, name).compiler_flag for name in __future__.all_feature_names]
            self.flags |= code.co_flags & sum({flag for flag in features if flag > 0xFFF})
        if last:
            expression = compile(_ast.Expression(last.value), path, "eval", self.flags, dont_inherit=True)
        exec(code, self.names)  # noqa: S102
        value = eval(expression, self.names) if last else None  # noqa: S307
        return None if value is None else repr(value)

    def write_file(self, path: str, data: bytes) -> None:
        """Write a file."""
        with open(path, "wb") as file:
            file.write(data)

    def remove_source(self, number: int) -> None:
        """Remove the source of an old script, to bound their number."""
        try:
            os.unlink(f"{self.directory}/script-{number}.py")
        except OSError:
            pass

    def replace_tools(self, source: bytes) -> None:
        """Replace the tools of `hermes_tools`, even if the module is already imported."""
        path = self.directory + "/hermes_tools.py"
        self.write_file(path, source)
        cached = self.directory + "/__pycache__"
        for name in os.listdir(cached) if os.path.isdir(cached) else ():
            if name.startswith("hermes_tools."):
                os.unlink(cached + "/" + name)
        module = sys.modules.get("hermes_tools")
        if module is None or getattr(module, "__file__", None) != path:
            return
        names = module.__dict__
        if sys.excepthook is names.get("_show"):
            sys.excepthook = names["_shown_before"]
        for name in names.get("__all__", ()):
            names.pop(name, None)
        exec(compile(source, path, "exec", dont_inherit=True), names)  # noqa: S102

    def exit_code(self, given: object) -> int:
        """Return the exit code for an argument of `sys.exit`; print a message."""
        if given is None:
            return 0
        if isinstance(given, int):
            return given & 0xFF
        print(given, file=sys.stderr)
        return 1

    def show(self, error: BaseException) -> None:
        """Show an uncaught error without frames of this file."""
        trace = error.__traceback__
        while trace and trace.tb_frame.f_globals is globals():
            trace = trace.tb_next
        try:
            sys.excepthook(type(error), error.with_traceback(trace), trace)
        except Exception:
            pass

    def report_in_parts(self, kind: str, data: bytes) -> None:
        """Send data longer than a message, in parts, on standard output."""
        room = ATOMIC - len(self.word) - 40
        for start in range(0, len(data), room):
            part = data[start : start + room]
            self.report(self.out, f"{kind} {len(part)} {int(start + room >= len(data))}\n".encode() + part)

    def report(self, descriptor: int, message: bytes) -> None:
        """Send a message on a stream, in a single write, which a pipe transfers whole."""
        message = b"\x1e" + self.word.encode() + b" " + message
        while message:
            message = message[os.write(descriptor, message) :]


def draw_figures() -> tuple[list[bytes], int]:
    """Return the open figures of matplotlib as PNG, close them, and return the number left out: too many or too large.

    Without an imported `matplotlib.pyplot` there are no figures.
    """
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is None or not hasattr(pyplot, "get_fignums"):
        return [], 0
    import io

    drawn, numbers = [], pyplot.get_fignums()
    for number in numbers[:MOST_FIGURES]:
        file = io.BytesIO()
        pyplot.figure(number).savefig(file, format="png")
        if file.tell() <= LARGEST_FIGURE:
            drawn.append(file.getvalue())
    pyplot.close("all")
    return drawn, len(numbers) - len(drawn)
