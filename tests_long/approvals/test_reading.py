"""Whatever bash runs of a text was found by reading it."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from environments.approvals.reader import read

# In "zap", which notes that it was run, and in what stands around it.
SIGNS = [
    *(
        "zap",
        "zap",
        "zap",
        "a",
        "echo",
        "x=",
        "eval",
        "builtin",
        "command",
        "!",
        "time",
        "-p",
        "f()",
        "function g",
        "in",
    ),
    *("'", '"', "\\", "\\\n", "$", "`", "#", " ", ";", "\n", "&", "&&", "|", "||", "(", ")", "{", "}", "<", ">f", "\t"),
    *(
        "<<E",
        "E",
        "\nE\n",
        "<<<",
        "case x in",
        "esac",
        "x)",
        "*)",
        ";;",
        "if true;",
        "then",
        "fi",
        "do",
        "done",
        "[[",
        "]]",
    ),
    *("[[", "]]", "$x", "${x", "$(", "((", "))", "$@", "~", "2>&1", "[", "]", "$'", "\\'", '\\"', '$"', "-", "="),
]
FORMS = [
    *('"{}"', "'{}'", "$({})", "`{}`", "${{x:-{}}}", "${{x#{}}}", "({})", "{{ {}; }}", "<({})", "$'{}'", "$(({}))"),
    *("a={} ", "<<E\n{}\nE\n", "<<'E'\n{}\nE\n", ": <<-E\n\t{}\n\tE\n", "<<{}\nE\nzap\n", "case x in {}) zap;; esac"),
    *("if true; then {}; fi", "for i in {}; do zap; done", "f() {{ {}; }}; f", "[[ {} ]]", "eval '{}'", "echo {}; zap"),
    *(": {}\nzap\n", ': "${{x:-{}}}" ; zap', ': "$({})" ; zap ; : ""'),
]
# Only what the shell has built in is found, so that nothing but zap and empty files comes of it.
DRIVER = """exec 8<texts_ 9>ran_
zap() { echo $n >&9; }
n=0
while IFS= read -r -d '' text; do ( eval "$text" ) </dev/null >/dev/null 2>&1 8<&-; n=$((n+1)); done <&8
"""


def made_up(chance: random.Random, depth: int) -> str:
    text = ""
    for _ in range(chance.randrange(1, 5)):
        if depth == 0 or chance.random() < 0.45:
            text += chance.choice(SIGNS) + chance.choice(["", "", " ", "\n", ";"])
        else:
            text += chance.choice(FORMS).format(made_up(chance, depth - 1))
    return text


@pytest.mark.parametrize("seed", range(4))
def test_no_command_that_bash_runs_is_hidden_by_how_it_is_written(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    texts = [text for text in (made_up(chance, 2) for _ in range(2000)) if "zap" in text]
    (tmp_path / "texts_").write_bytes(b"".join(text.encode() + b"\0" for text in texts))
    subprocess.run(["/bin/bash", "-c", DRIVER], cwd=tmp_path, env={"PATH": "/nonexistent"}, timeout=100, check=False)
    ran = {int(number) for number in (tmp_path / "ran_").read_text().split()}
    assert len(ran) > 20
    assert [texts[number] for number in sorted(ran) if not is_found(texts[number])] == []


def is_found(text: str) -> bool:
    """Whether zap was found in a text, or it is said that there may be more in it than was found."""
    reading = read(text)
    return bool(reading.unread or reading.findings) or any(command.name == "zap" for command in reading.commands)
