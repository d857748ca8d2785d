"""The part of the boot program that runs one script after another in one namespace, for a Python that stays.

It stands behind `boot_program` in one text, and uses its names.
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
"""Digits of the size in front of a script."""
KEPT_SOURCES = 200
"""How many scripts have their source kept, for tracebacks."""
MOST_FIGURES, LARGEST_FIGURE = 10, 5 * 1024 * 1024
"""How many figures of one script are shown, and how many bytes each may have."""


class ScriptRunner:
    """Runs the scripts that it is sent, in one namespace, and says what came of each.

    What it says stands in the output behind the script's own. On standard output that is the value of a last
    expression, `v SIZE LAST` and its bytes, in parts, the figures, `i SIZE LAST` likewise, and the end, `d NUMBER CODE
    SIZE LEFT_OUT`: the script's number and exit code, the size of the whole value, and how many figures are left out.
    On standard error it is the end alone, `f NUMBER`.

    Args:
        control: Where scripts come from.
        directory: Where they are put.
        word: What its messages begin with.
    """

    def __init__(self, control: _socket.socket, directory: str, word: str) -> None:
        import _signal  # type: ignore[import-not-found]

        self.control, self.directory, self.word = control, directory, word
        self.process = os.getpid()
        self.out, self.errors = os.dup(1), os.dup(2)  # a script may close those, or put others there
        self.signals = _signal
        self.on_interrupt = _signal.default_int_handler  # the scripts' own
        self.flags = 0
        self.names = main_module(directory + "/script-0.py").__dict__
        os.environ.setdefault("MPLBACKEND", "agg")  # figures are files here

    def serve(self) -> None:
        """Run one after another, until no more comes."""
        import marshal

        self.ignore_interrupts()
        while True:
            head = self.receive(SIZE_DIGITS)
            if not head:
                return
            if not int(head):  # an interrupt of the script before, which has ended
                continue
            request = marshal.loads(self.receive(int(head)))
            code, value, size, figures, left_out = self.run(request)
            for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
                try:
                    stream.flush()  # type: ignore[union-attr]  # whatever a script has put there
                except Exception:
                    pass
            if os.getpid() != self.process:  # a fork that the script has made, and that came here
                sys.exit(code)
            number = request["number"]
            for kind, data in (("v", value), *(("i", figure) for figure in figures)):
                self.report_in_parts(kind, data)
            self.report(self.out, f"d {number} {code} {size} {left_out}\n".encode())
            self.report(self.errors, f"f {number}\n".encode())

    def ignore_interrupts(self) -> None:
        """Let no interrupt end us between two scripts."""
        handler = self.signals.signal(2, ignore_signal)
        if handler is not ignore_signal:
            self.on_interrupt = handler

    def receive(self, size: int) -> bytes:
        """Return so many bytes; none if no more come."""
        data = b""
        while len(data) < size:
            piece = self.control.recv(min(size - len(data), RECEIVE))
            if not piece:
                return b""
            data += piece
        return data

    def is_interrupted(self) -> bool:
        """Return whether an interrupt has come behind the script, before its signal could do anything."""
        import _socket

        try:
            return bool(self.control.recv(1, _socket.MSG_PEEK | _socket.MSG_DONTWAIT))
        except BlockingIOError:
            return False

    def run(self, request: dict[str, object]) -> tuple[int, bytes, int, list[bytes], int]:
        """Run one script; return its exit code, its value cut, the size of that, its figures, and those left out."""
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
        self.ignore_interrupts()  # one may have come just there
        return code, value[: int(str(request["most"]))], len(value), figures, left_out

    def value_of(self, request: dict[str, object]) -> str | None:
        """Run a script, and return how its last expression is written, if it ends with one that is not None."""
        import _ast

        path, source = "{}/script-{}.py".format(self.directory, request["number"]), str(request["code"]).encode()
        self.write_file(path, source)  # for tracebacks, which read it there
        self.remove_source(int(str(request["number"])) - KEPT_SOURCES)
        if request["stub"] is not None:
            self.replace_tools(str(request["stub"]).encode())
        sys.argv[:] = [path, *request["arguments"]]  # type: ignore[misc]
        self.names["__file__"] = path
        tree = compile(source, path, "exec", _ast.PyCF_ONLY_AST | self.flags, dont_inherit=True)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], _ast.Expr) else None
        code = compile(tree, path, "exec", self.flags, dont_inherit=True)
        if b"__future__" in source:  # it holds for those that come behind, too
            import __future__

            features = [getattr(__future__, name).compiler_flag for name in __future__.all_feature_names]
            self.flags |= code.co_flags & sum({flag for flag in features if flag > 0xFFF})
        if last:
            expression = compile(_ast.Expression(last.value), path, "eval", self.flags, dont_inherit=True)
        exec(code, self.names)  # noqa: S102
        value = eval(expression, self.names) if last else None  # noqa: S307
        return None if value is None else repr(value)

    def write_file(self, path: str, data: bytes) -> None:
        """Write a file of ours."""
        with open(path, "wb") as file:
            file.write(data)

    def remove_source(self, number: int) -> None:
        """Remove the source of an old script, so that there are not ever more."""
        try:
            os.unlink(f"{self.directory}/script-{number}.py")
        except OSError:
            pass

    def replace_tools(self, source: bytes) -> None:
        """Have `hermes_tools` have other tools, also where it is imported already."""
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
        """Return the exit code that `sys.exit` has asked for, and say what it is to say."""
        if given is None:
            return 0
        if isinstance(given, int):
            return given & 0xFF
        print(given, file=sys.stderr)
        return 1

    def show(self, error: BaseException) -> None:
        """Show an uncaught error, without the frames of this file."""
        trace = error.__traceback__
        while trace and trace.tb_frame.f_globals is globals():
            trace = trace.tb_next
        try:
            sys.excepthook(type(error), error.with_traceback(trace), trace)
        except Exception:
            pass

    def report_in_parts(self, kind: str, data: bytes) -> None:
        """Say something on standard output that may be longer than a message."""
        room = ATOMIC - len(self.word) - 40
        for start in range(0, len(data), room):
            part = data[start : start + room]
            self.report(self.out, f"{kind} {len(part)} {int(start + room >= len(data))}\n".encode() + part)

    def report(self, descriptor: int, message: bytes) -> None:
        """Say something on one of the streams. Each message is one write, which a pipe takes whole."""
        message = b"\x1e" + self.word.encode() + b" " + message
        while message:
            message = message[os.write(descriptor, message) :]


def draw_figures() -> tuple[list[bytes], int]:
    """Return the open figures of matplotlib as PNG, close them, and say how many are left out: too many or too large.

    `matplotlib.pyplot` is not imported here; without it there is none.
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
