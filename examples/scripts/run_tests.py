"""A script as a model would write: run a project's tests, and print only the totals and the failures."""

import re

from hermes_tools import terminal

result = terminal("cd /project && python -m pytest -q", timeout=120)
output = result["output"]
if result["exit_code"] == 0:
    print(output.strip().splitlines()[-1])
else:
    counts = {what: int(count) for count, what in re.findall(r"(\d+) (passed|failed|errors?)\b", output)}
    print(f"exit code {result['exit_code']}: {counts}")
    for line in re.findall(r"^(?:FAILED|ERROR) .*", output, re.MULTILINE)[:20]:
        print(line)
    print("...", output[-2000:], sep="\n")
