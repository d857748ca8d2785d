"""A script that draws two figures with a fake matplotlib."""

FIGURE = b"\x89PNG\r\n\x1a\x1e" + b"pixels\n" * 1000

DRAWS_TWO = """
import sys, types
module = types.ModuleType("matplotlib.pyplot")
class Figure:
    def savefig(self, file, format): file.write(b"\\x89PNG\\r\\n\\x1a\\x1e" + b"pixels\\n" * 1000)
figures = [1, 2]
module.get_fignums = lambda: list(figures)
module.figure = lambda number: Figure()
module.close = lambda which: figures.clear()
sys.modules["matplotlib.pyplot"] = module
"""
