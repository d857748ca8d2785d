"""Which Pythons are never forked: those of which a fork would not be what starting them again gives."""

from __future__ import annotations

from targets.ready_python import is_forked

from code_execution import execute_code
from code_execution.warm.servers import WarmServers
from environments import BaseEnvironment
from environments.conformance.check import wait_until


def test_a_python_that_a_program_of_ones_own_starts_is_never_forked(env: BaseEnvironment) -> None:
    env.execute("mkdir -p tool/bin && export CONDA_PREFIX=$PWD/tool")
    wrapper = '#!/bin/sh\\nexport WHERE="$PWD"\\nexec python3 "$@"\\n'
    env.execute(f"printf '{wrapper}' >tool/bin/python && chmod +x tool/bin/python")
    code = "import os; print(os.environ['WHERE'] == os.getcwd())"
    assert execute_code(code, env=env).output == "True\n"
    kept = env.attachments.get(WarmServers)._kept
    assert wait_until(lambda: all(each.failures for each in kept.values()))
    assert execute_code(code, env=env).output == "True\n"
    assert not is_forked(env)
