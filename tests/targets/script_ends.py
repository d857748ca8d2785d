"""Scripts whose ends and deeds would show a difference in how they were started."""

from __future__ import annotations


def _scripts(text: str) -> dict[str, str]:
    """Return scripts by the name above each."""
    parts = (part.split("\n", 1) for part in text.split("### ")[1:])
    return {name: code.strip("\n") + "\n" for name, code in parts}


ENDS = _scripts(r"""
### an error
def f():
    raise ValueError('no')
f()

### an error of an error
try:
    1 / 0
except ZeroDivisionError as error:
    raise KeyError('a') from error

### an error with notes
e = ValueError('no')
if hasattr(e, 'add_note'): e.add_note('a note')
raise e

### a group
import sys
raise (ExceptionGroup('g', [ValueError(1)]) if sys.version_info >= (3, 11) else OSError(1, 'x'))

### nothing
print('out')

### an exit
import sys
sys.exit(3)

### an exit with a text
import sys
sys.exit('why')

### an exit with a value
raise SystemExit([1, 2])

### an exit without one
raise SystemExit

### an exit beyond a byte
raise SystemExit(300)

### an exit below zero
raise SystemExit(-1)

### an exit in a handler
try:
    1 / 0
except ZeroDivisionError:
    raise SystemExit(4)

### a keyboard interrupt
def f():
    raise KeyboardInterrupt
f()

### an interrupt by its signal
import os, signal
os.kill(os.getpid(), signal.SIGINT)
import time; time.sleep(5)

### wrong syntax
print('a'
x = = 2

### wrong indentation
if True:
x = 1

### a warning of the syntax
import warnings
x = 1
print(x is 1)
1/0

### a wrong escape
x = '\d'
raise OSError(x)

### another encoding
# -*- coding: latin-1 -*-
print(len('é'))
raise ValueError('é')

### an unknown encoding
# -*- coding: no-such-thing -*-
print(1)

### a future
from __future__ import annotations
def f(x: y): pass
print(f.__annotations__)
1/0

### no future
def f(x: y): pass

### an end at once
import os
print('a'); os._exit(7)

### a signal
import os
os.kill(os.getpid(), 15)

### a signal that it cannot catch
import os
os.kill(os.getpid(), 9)

### an abort
import os
os.abort()

### a closed pipe
import os
r, w = os.pipe(); os.close(r); os.write(w, b'x')

### an exit handler
import atexit, sys
atexit.register(lambda: print('at the end', sys.exc_info()))
1/0

### an error of an exit handler
import atexit
atexit.register(lambda: 1/0)
print(1)
raise SystemExit(2)

### a hook
import sys
sys.excepthook = lambda *a: print('hook', a[0], a[1], a[2].tb_lineno, a[2].tb_next)
1/0

### a hook that fails
import sys
def hook(*a): raise KeyError('in the hook')
sys.excepthook = hook
1/0

### a hook that exits
import sys
def hook(*a): sys.exit(9)
sys.excepthook = hook
1/0

### no hook
import sys
del sys.excepthook
1/0

### the last error
import atexit, sys
def last():
    trace = sys.last_traceback
    print(sys.last_type, sys.last_value, trace.tb_lineno, trace.tb_next, sys.last_value.__traceback__ is trace)
    print(sys.excepthook is sys.__excepthook__)
atexit.register(last)
1/0

### a deep recursion
def f(n):
    return f(n + 1) + 1
f(0)

### a thread's error
import threading
t = threading.Thread(target=lambda: 1/0, name='T'); t.start(); t.join(); raise SystemExit(1)

### a thread's exit
import sys, threading
t = threading.Thread(target=sys.exit); t.start(); t.join(); print('on'); sys.exit(5)

### a thread that goes on
import threading, time
threading.Thread(target=lambda: (time.sleep(0.2), print('late'))).start()
1/0

### a daemon
import threading, time
threading.Thread(target=lambda: time.sleep(60), daemon=True).start()
1/0

### an unraisable error
class A:
    def __del__(self): 1/0
a = A()
del a
raise SystemExit(1)

### objects at the end
import sys
class A:
    def __init__(self, n): self.n = n
    def __del__(self): print('del', self.n, __name__)
a, b = A(1), A(2)
b.self = b
sys.a = A(3)

### objects at the end of an error
class A:
    def __del__(self): print('del')
def f():
    a = A()
    1/0
f()

### a closed output
import os
os.close(1)
print('x')

### an output closed by Python
import sys
sys.stdout.close()
print('x')

### a text without an encoding
print('\udc80')
1/0

### an alarm
import signal
signal.alarm(1)
signal.pause()

### a pipe at the end
import signal
signal.raise_signal(signal.SIGPIPE)
print('ignored')
raise SystemExit(6)

### a loop
import asyncio, signal
async def main():
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, lambda: print('term'))
    import os; os.kill(os.getpid(), 15); await asyncio.sleep(0.1); raise ValueError('in the loop')
asyncio.run(main())

### an interrupted loop
import asyncio, os
async def main():
    os.kill(os.getpid(), 2); await asyncio.sleep(5)
asyncio.run(main())
""") | {
    "a zero byte": "x = 1\nprint('\0')\n",
}
"""Possible ends of a script."""

DOES = _scripts(r"""
### spawn
import multiprocessing as m
def f(x): return x + 1, __name__
if __name__ == '__main__':
    for kind in ('spawn', 'forkserver', 'fork'):
        with m.get_context(kind).Pool(1) as pool: print(kind, pool.map(f, [1]))

### executor
from concurrent.futures import ProcessPoolExecutor
def f(x): return x * 2
if __name__ == '__main__':
    with ProcessPoolExecutor(2) as pool: print(list(pool.map(f, [1, 2])))

### pickle
import pickle
class A:
    x = 1
print(pickle.loads(pickle.dumps(A())).x, pickle.dumps(A)[:40])

### itself
import sys
if __name__ == '__main__':
    import script
    print(script.__file__ == __file__, script is sys.modules['__main__'])

### runpy
import runpy
if __name__ == '__main__':
    print(runpy.run_path(__file__)['__name__'], runpy.run_module('script')['__name__'])

### source
import inspect, linecache
def f():
    return 1
class A:
    pass
print(inspect.getsource(f), inspect.getsource(A), linecache.getline(__file__, 1))
print(inspect.getsourcefile(f), inspect.getmodule(f))

### stack
import sys, traceback
def f(): return traceback.extract_stack()[-2:]
print(f(), sys._getframe().f_globals is globals())

### warning
import warnings
def f(): warnings.warn('w', stacklevel=2)
f()
raise SystemExit(1)

### again
import os, sys
print(sys.argv, 'AGAIN' in os.environ)
if 'AGAIN' not in os.environ:
    os.environ['AGAIN'] = '1'
    os.execv(sys.executable, [sys.executable, '-u', *sys.argv, 'more'])

### as it was started
import os, sys
print(sys.argv, 'AGAIN' in os.environ)
if 'AGAIN' not in os.environ and hasattr(sys, 'orig_argv'):
    os.environ['AGAIN'] = '1'
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])

### child
import subprocess, sys
code = 'import os, sys; print(sorted(map(int, os.listdir("/proc/self/fd"))), sys.path, sys.meta_path, sys.stdin.read())'
print(subprocess.run([sys.executable, '-c', code], close_fds=False, capture_output=True, text=True))

### breakpoint
import sys
try:
    breakpoint()
finally:
    print('after', sys.gettrace() is None)

### exec
exec(compile('x = 1', '<s>', 'exec'))
print(x, eval('__name__'), sorted(k for k in globals() if not k.startswith('__')))

### annotated
x: int = 1
print(__annotations__ if '__annotations__' in globals() else 'lazily', globals().get('__annotations__'))

### symbols
import sys, gc, weakref
main = sys.modules['__main__']
print(main.__dict__ is globals(), main.__name__, __spec__, __package__, __loader__.is_package('__main__'))

### package data
import importlib.util
print(importlib.util.find_spec('script').origin == __file__, importlib.util.find_spec('json').name)
try:
    print(importlib.util.find_spec('__main__'))
except ValueError as error: print(error)

### reload
import importlib, json
print(importlib.reload(json) is json, importlib.invalidate_caches())

### input
import sys
print(repr(sys.stdin.readline()), list(sys.stdin), sys.stdin.buffer.read())
try:
    input()
except EOFError as e: print(repr(e))

### fault
import faulthandler
faulthandler.enable()
print(faulthandler.is_enabled())

### sleep
import threading, signal, time
t = threading.Timer(0.1, lambda: signal.raise_signal(signal.SIGUSR1))
signal.signal(signal.SIGUSR1, lambda *a: print('usr1', a[0]))
t.start(); time.sleep(0.3)

### wait
import os
pid = os.fork()
if not pid: os._exit(3)
print(os.waitstatus_to_exitcode(os.waitpid(-1, 0)[1]) if hasattr(os, 'waitstatus_to_exitcode') else 3)
try:
    os.waitpid(-1, os.WNOHANG)
except ChildProcessError as e: print(e)

### session
import os
print(os.getpgid(0) == os.getpgrp())
if not os.fork():
    os.setsid(); os._exit(0)
print(os.wait()[1])

### unittest
import unittest
class T(unittest.TestCase):
    def test(self): self.assertEqual(__name__, '__main__')
unittest.main(verbosity=2)

### doctest
def f():
    '''
    >>> f()
    1
    '''
    return 1
import doctest
print(doctest.testmod())

### dataclass
from dataclasses import dataclass
from typing import get_type_hints
@dataclass
class A:
    x: 'B'
class B: pass
print(get_type_hints(A))

### argparse
import argparse
print(argparse.ArgumentParser().prog)
argparse.ArgumentParser().parse_args()
""")
"""Deeds of a script that might show how it was started."""
